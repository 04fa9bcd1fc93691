// A plan that is waiting for approval: cost, reason, and the decision to approve, modify or reject.

import { post } from '../api.js';
import { button, choice, fact, facts, field } from '../components.js';
import { openDialog } from '../dialogs.js';
import { h } from '../dom.js';
import { capital, count, money } from '../format.js';
import { AI_PAGES, COSTS, PRIORITIES, providerChoices, providerName, TIERS } from '../labels.js';
import { showError } from '../notices.js';
import { isOperator, me } from '../session.js';

export function approval(model, path, onChanged) {
  const element = h('section', { class: 'card plan', 'aria-label': 'Approval', hidden: true });
  let shown;

  const decide = (run) => () =>
    run()
      .then((job) => job && onChanged(job))
      .catch(showError);

  const approve = () => post(`${path}/approve`);

  const reject = () => {
    const reason = h('input', { maxlength: 1000, autocomplete: 'off', placeholder: 'too expensive' });
    return openDialog({
      title: 'Reject this plan?',
      action: 'Reject',
      tone: 'danger',
      body: [
        h('p', {}, 'The job ends and nothing is charged.'),
        field('Reason', reason, 'Stored in the audit trail and shown with the job.'),
      ],
      run: () => post(`${path}/reject`, reason.value.trim() ? { reason: reason.value.trim() } : {}),
    });
  };

  const modify = () => {
    const { plan, options } = model.job;
    const providers = [...new Set([plan.provider, ...(me.providers ?? [])])];
    const fields = {
      tier: choice('tier', TIERS, plan.tier),
      provider: choice('provider', providerChoices(providers), plan.provider),
      ai_pages: choice('ai_pages', AI_PAGES, options.ai_pages),
      pages: h('input', { name: 'pages', value: options.pages, autocomplete: 'off' }),
      failover: h('input', { name: 'failover', value: options.failover ?? '', autocomplete: 'off' }),
      deadline: h('input', { name: 'deadline', placeholder: options.deadline, autocomplete: 'off' }),
      patience: h('input', { name: 'patience', value: options.patience, autocomplete: 'off' }),
      priority: choice('priority', PRIORITIES, options.priority),
      cost: choice('cost', COSTS, options.cost),
      budget_usd: h('input', { name: 'budget_usd', value: options.budget_usd ?? '', autocomplete: 'off' }),
    };
    const before = {
      ...options,
      tier: plan.tier,
      provider: plan.provider,
      deadline: '',
      budget_usd: String(options.budget_usd ?? ''),
    };
    return openDialog({
      title: 'Modify the plan',
      action: 'Modify and approve',
      body: [
        h('p', {}, 'The modified plan is approved, whatever it costs.'),
        h(
          'div',
          { class: 'fields' },
          field('Model tier', fields.tier),
          field('Provider', fields.provider),
          field('Pages for AI', fields.ai_pages),
          field('Pages that may go to AI', fields.pages, 'For example 1-10'),
          field('Order of models', fields.failover, 'For example openai:gpt-5.4,gemini:gemini-3.8-flash'),
          field('Deadline, from now', fields.deadline, 'For example 10m'),
          field('Patience', fields.patience, 'How long a page is tried again: deadline, a time, or 0'),
          field('Priority', fields.priority),
          field('Price of calls', fields.cost),
          field('Budget in US dollars', fields.budget_usd, 'Pages beyond it keep their own text'),
        ),
      ],
      run: () => {
        const changes = Object.entries(fields)
          .map(([name, input]) => [name, input.value.trim()])
          .filter(([name, value]) => value && value !== before[name]);
        if (!changes.length) throw new Error('nothing was changed; approve the plan instead');
        return post(`${path}/modify`, Object.fromEntries(changes));
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
    const children = [
      h('h2', {}, 'Waiting for approval'),
      plan.approval && h('p', {}, `${capital(plan.approval)}.`),
      facts(
        fact('Estimated cost', money(plan.estimated_cost_micro_usd)),
        fact('Estimated credits', count(plan.estimated_credits)),
        fact('Pages for AI', count(plan.ai_pages)),
        fact('Pages with an image', count(plan.image_pages)),
        fact('Provider, model tier', `${providerName(plan.provider)}, ${plan.tier}`),
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
    element.replaceChildren(...children.filter(Boolean));
  }

  return { element, render };
}
