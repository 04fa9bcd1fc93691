// Every route through a client that openapi-typescript types: compiling checks the types, running it the answers.
//
//   node out/check.js URL KEY PDF       run by scripts/check-clients

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Job = components["schemas"]["Job"];
type Status = components["schemas"]["Status"];

const [url, key, file] = process.argv.slice(2) as [string, string, string];
const pdf = await readFile(file);
const api = createClient<paths>({ baseUrl: url, headers: { authorization: `Bearer ${key}` } });
const bytes = { bodySerializer: (body: unknown) => body as BodyInit };

/** The data of a response that must be a success. */
function ok<T>(response: { data?: T; error?: components["schemas"]["Problem"]; response: Response }): T {
  assert.ok(response.response.ok, `${response.response.url}: ${response.error?.code} ${response.error?.detail}`);
  return response.data as T;
}

async function submit(number: number): Promise<Job> {
  const body = new Blob([pdf, `\n% typescript ${number}\n`]) as unknown as string;
  return ok(await api.POST("/v1/jobs", {
    params: { query: { tier: "fast", priority: "high", name: "a.pdf" } },
    body, headers: { "content-type": "application/pdf" }, ...bytes,
  }));
}

async function wait(id: string, status: Status): Promise<Job> {
  for (let tries = 0; tries < 300; tries++) {
    const job = ok(await api.GET("/v1/jobs/{id}", { params: { path: { id } } }));
    if (job.status === status) return job;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${id} is not ${status}`);
}

const of = (id: string) => ({ params: { path: { id } } });
const [first, second, third, fourth] = [await submit(1), await submit(2), await submit(3), await submit(4)];
for (const { id } of [first, second, third, fourth]) await wait(id, "awaiting_approval");
assert.equal(ok(await api.POST("/v1/jobs/{id}/reject", { ...of(first.id), body: { reason: "no" } })).status, "rejected");
ok(await api.POST("/v1/jobs/{id}/cancel", of(second.id)));
ok(await api.POST("/v1/jobs/{id}/modify", { ...of(third.id), body: { tier: "secondary" } }));
ok(await api.POST("/v1/jobs/{id}/approve", of(fourth.id)));
await wait(third.id, "success");
const { id } = await wait(fourth.id, "success");

assert.equal(ok(await api.GET("/v1/jobs", { params: { query: { status: "success" } } })).items.length, 2);
const pages = ok(await api.GET("/v1/jobs/{id}/pages", of(id))).items;
assert.equal(pages.length, 12);
const page = { params: { path: { id, page: 4 } } };
assert.equal(ok(await api.GET("/v1/jobs/{id}/pages/{page}", page)).source, "ai");
const image: unknown = ok(await api.GET("/v1/jobs/{id}/pages/{page}/image", { ...page, parseAs: "blob" }));
assert.ok(image instanceof Blob && image.size > 1000);
const json = ok(await api.GET("/v1/jobs/{id}/result", { params: { path: { id }, query: { format: "json" } } }));
if (typeof json === "string") throw new Error("not JSON");
const box = json.pages[0]!.blocks![0]!.box;
assert.equal(box.length, 4);
for (const format of ["text", "markdown"] as const) {
  const text = ok(await api.GET("/v1/jobs/{id}/result", { params: { path: { id }, query: { format } }, parseAs: "text" }));
  assert.equal(typeof text, "string");
}
const result = { path: { id } };
const chunks = ok(await api.GET("/v1/jobs/{id}/result", { params: { ...result, query: { format: "chunks" } }, parseAs: "text" }));
if (typeof chunks !== "string") throw new Error("no lines");
for (const line of chunks.trim().split("\n")) assert.equal(typeof JSON.parse(line).text, "string");
const searchable: unknown = ok(await api.GET("/v1/jobs/{id}/result", { params: { ...result, query: { format: "pdf" } }, parseAs: "blob" }));
assert.ok(searchable instanceof Blob && (await searchable.slice(0, 5).text()) === "%PDF-");
const trail = ok(await api.GET("/v1/jobs/{id}/events", of(id)));
assert.ok(typeof trail !== "string" && trail?.items[0]!.type === "job.received");
ok(await api.GET("/v1/events", { params: { query: { limit: 5 } } }));
const healed = await api.POST("/v1/jobs/{id}/heal", { ...of(id), body: {} });
assert.ok(healed.response.status === 202 || healed.error?.code === "nothing_to_heal");
ok(await api.GET("/v1/stats"));

const bought = ok(await api.POST("/v1/account/credits", { body: { credits: 7, method: "full-card" } }));
assert.equal(bought.state, "COMPLETED");
ok(await api.GET("/v1/account/purchases/{id}", of(bought.id)));
ok(await api.GET("/v1/account/purchases"));
assert.equal(ok(await api.GET("/v1/account")).balance, 7);
ok(await api.GET("/v1/account/ledger"));
assert.deepEqual(ok(await api.GET("/v1/dlq")).items, []);
ok(await api.POST("/v1/dlq/estimate", { body: { all: true } }));
ok(await api.POST("/v1/dlq/redrive", { body: { all: true } }));
ok(await api.POST("/v1/dlq/purge", { body: { all: true, confirm: 0 } }));
ok(await api.GET("/v1/notices"));
const hook = ok(await api.PUT("/v1/webhook", { body: { url: "https://example.com/ends" } }));
assert.ok(hook.id === "default" && hook.secret);
assert.equal(ok(await api.GET("/v1/webhook")).url, "https://example.com/ends");
const typed = ok(await api.POST("/v1/webhooks", { body: { url: "https://example.com/all", events: ["job.*"] } }));
assert.deepEqual(ok(await api.GET("/v1/webhooks/{id}", of(typed.id))).events, ["job.*"]);
ok(await api.PUT("/v1/webhooks/{id}", { ...of(typed.id), body: { url: typed.url, events: ["credit.*"] } }));
assert.equal(ok(await api.GET("/v1/webhooks")).items.length, 2);
assert.deepEqual(ok(await api.GET("/v1/webhooks/{id}/deliveries", of(typed.id))).items, []);
ok(await api.DELETE("/v1/webhooks/{id}", of(typed.id)));
ok(await api.DELETE("/v1/webhook"));
ok(await api.GET("/v1/breakers"));
ok(await api.GET("/v1/load"));
assert.equal(ok(await api.GET("/v1/me")).role, "operator");
assert.equal(ok(await api.GET("/healthz")).status, "ok");
assert.equal(ok(await api.GET("/readyz")).status, "ok");
ok(await api.GET("/metrics", { parseAs: "text" }));
ok(await api.GET("/v1/openapi.json"));
ok(await api.DELETE("/v1/jobs/{id}", of(first.id)));
const gone = await api.DELETE("/v1/jobs/{id}", of(first.id));
assert.equal(gone.error?.code, "unknown_job");
console.log("1 passed: the TypeScript client");
