// A plan that waits for a person: what it would cost and why it is asked, to approve, modify or reject.

import { post } from '../api.js';
import { h } from '../dom.js';
import { capital, count, money } from '../format.js';
import { openDialog } from '../dialogs.js';
import { trouble } from '../notices.js';
import { button, choice, fact, facts, field } from '../parts.js';
import { isOperator } from '../session.js';

export function approval(model, path, changed) {
  const element = h('section', { class: 'card plan', 'aria-label': 'Approval', hidden: true });
  let shown;

  const decide = (run) => () =>
    run()
      .then((job) => job && changed(job))
      .catch(trouble);

  const approve = () => post(`${path}/approve`);

  const reject = () => {
    const reason = h('input', { maxlength: 1000, autocomplete: 'off', placeholder: 'too dear' });
    return openDialog({
      title: 'Reject this plan?',
      action: 'Reject',
      tone: 'danger',
      body: [
        h('p', {}, 'The job ends and nothing is charged.'),
        field('Reason', reason, 'Kept in the trail and shown with the job.'),
      ],
      run: () => post(`${path}/reject`, reason.value.trim() ? { reason: reason.value.trim() } : {}),
    });
  };

  const modify = () => {
    const { plan, options } = model.job;
    const fields = {
      tier: choice(
        'tier',
        [
          ['primary', 'Primary'],
          ['fast', 'Fast'],
          ['secondary', 'Secondary'],
        ],
        plan.tier,
      ),
      engine: choice(
        'engine',
        [
          ['openai', 'OpenAI'],
          ['anthropic', 'Anthropic'],
        ],
        plan.engine,
      ),
      ai_pages: choice(
        'ai_pages',
        [
          ['graphics', 'Those that need eyes'],
          ['all', 'All'],
        ],
        options.ai_pages,
      ),
      pages: h('input', { name: 'pages', value: options.pages, autocomplete: 'off' }),
      deadline: h('input', { name: 'deadline', placeholder: options.deadline, autocomplete: 'off' }),
      priority: choice(
        'priority',
        ['low', 'normal', 'high', 'critical', 'urgent'].map((name) => [name, name]),
        options.priority,
      ),
    };
    const before = { ...options, tier: plan.tier, engine: plan.engine, deadline: '' };
    return openDialog({
      title: 'Modify the plan',
      action: 'Modify and approve',
      body: [
        h('p', {}, 'Who changes the plan agrees to what comes of it.'),
        h(
          'div',
          { class: 'fields' },
          field('Model asked first', fields.tier),
          field('Provider asked first', fields.engine),
          field('Pages for AI', fields.ai_pages),
          field('Pages that may go to AI', fields.pages, 'Such as 1-10'),
          field('Deadline, from now', fields.deadline, 'Such as 10m'),
          field('Priority', fields.priority),
        ),
      ],
      run: () => {
        const otherwise = Object.entries(fields)
          .map(([name, input]) => [name, input.value.trim()])
          .filter(([name, value]) => value && value !== before[name]);
        if (!otherwise.length) throw new Error('nothing was changed; approve the plan instead');
        return post(`${path}/modify`, Object.fromEntries(otherwise));
      },
    });
  };

  function render() {
    const { job } = model;
    element.hidden = job.status !== 'awaiting_approval';
    const version = element.hidden ? undefined : `${job.id} ${job.plan?.version}`;
    if (version === shown) return;
    shown = version;
    if (!version) return element.replaceChildren();
    const { plan } = job;
    const about = [
      h('h2', {}, 'This plan waits for a person'),
      plan.approval && h('p', {}, `${capital(plan.approval)}.`),
      facts(
        fact('Estimated cost', money(plan.estimated_cost_micro_usd)),
        fact('Credits', count(plan.estimated_credits)),
        fact('Pages for AI', count(plan.ai_pages)),
        fact('With an image', count(plan.image_pages)),
        fact('Asked first', `${plan.engine}, ${plan.tier}`),
      ),
      isOperator()
        ? h(
            'div',
            { class: 'actions' },
            button('Approve', 'check', decide(approve), { class: 'button primary' }),
            button('Modify', 'pen', decide(modify)),
            button('Reject', 'close', decide(reject), { class: 'button danger' }),
          )
        : h('p', { class: 'hint' }, 'An operator decides.'),
    ];
    element.replaceChildren(...about.filter(Boolean));
  }

  return { element, render };
}
