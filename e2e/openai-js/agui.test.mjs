// Drives a live Stoa: the official client of AG-UI runs an agent in random threads, with cuts at random points.
// The server is given by STOA_URL and STOA_API_KEY; STOA_AGUI_THREADS is the number of threads.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { HttpAgent } from "@ag-ui/client";
import { EventSchema } from "@ag-ui/core/schemas";

const base = process.env.STOA_URL + "/api/v1";
const headers = { Authorization: "Bearer " + process.env.STOA_API_KEY };
const threads = Number(process.env.STOA_AGUI_THREADS ?? 20);

async function call(method, path, body) {
  const r = await fetch(base + path, { method, headers: { ...headers, "Content-Type": "application/json" }, body: body && JSON.stringify(body) });
  const text = await r.text();
  assert.ok(r.ok, `${method} ${path}: ${r.status} ${text}`);
  return JSON.parse(text);
}

// warnings of the client are deviations from the protocol.
const warnings = [];
console.warn = (...args) => warnings.push(args.join(" "));
console.error = () => {}; // the client reports each cut

let path;
before(async () => {
  const space = await call("POST", "/spaces", { name: "Front ends" });
  const tool = { type: "client", name: "paint", description: "Paints.", parameters: { type: "object" } };
  const agent = await call("POST", "/api-agents", { spaceId: space.id, name: "Painter", description: "Repeats.", instructions: "Repeat.", expose: ["agui"], tools: [tool] });
  path = `/api-agents/${agent.id}`;
  await call("PUT", path + "/drive/files", { path: "a.txt", content: "text" });
});

const tools = [{ name: "paint", description: "Paints.", parameters: { type: "object" } }];
const pick = (list) => list[Math.floor(Math.random() * list.length)];

// cutting is fetch, but the connection breaks off after a number of bytes. An abort of the client's own controller is no
// replacement: in Node 20, one that meets the end of the reply leaves the client waiting for ever.
const cutting = (bytes) => async (url, init) => {
  const reply = await fetch(url, init);
  const reader = reply.body.getReader();
  const body = new ReadableStream({
    async pull(to) {
      const { done, value } = await reader.read();
      if (done) return to.close();
      if ((bytes -= value.length) > 0) return to.enqueue(value);
      await reader.cancel();
      to.error(new DOMException("cut", "AbortError"));
    },
  });
  return reply.ok ? new Response(body, { status: reply.status, headers: reply.headers }) : reply;
};

// run runs the agent once and validates each event. It returns the end of the run, or undefined after a cut.
async function run(agent, parameters, bytes) {
  let end, failed;
  agent.fetch = cutting(bytes);
  await agent.runAgent({ tools, ...parameters }, {
    onEvent: ({ event }) => { EventSchema.parse(event); },
    onRunFinishedEvent: (e) => { end = e; },
    onRunErrorEvent: ({ event }) => { if (event.code !== "abort") failed = event; }, // the client makes one of a cut
  });
  assert.equal(failed, undefined, failed?.message);
  return end;
}

// runThrough runs the agent with cuts, each followed by the same run, until it has ended.
async function runThrough(agent, parameters) {
  const runId = crypto.randomUUID();
  for (let cuts = Math.floor(Math.random() * 3); cuts > 0; cuts--) {
    const end = await run(agent, { ...parameters, runId }, Math.floor(Math.random() * 2500));
    if (end) return end;
  }
  const end = await run(agent, { ...parameters, runId }, Infinity);
  assert.ok(end, "the run has no end");
  return end;
}

const orders = [
  () => ({ order: `say: ${pick(["One.", "Zwölf.", "💡 three"])}` }),
  () => ({ order: "slow: 2ms\nsay: one two three four five six seven eight nine ten eleven twelve" }),
  () => ({ order: "call: drive_list {}\nsay: Listed." }),
  () => ({ order: 'call: ask_user {"question":"Which day?"}\nsay: It is open then.', answer: "Friday" }),
  () => ({ order: 'call: ask_user {"question":"Which day?","options":["Monday","Friday"]}\nsay: It is open then.', answer: { answer: "Monday" } }),
  () => ({ order: 'call: paint {"color":"red"}\ncall: paint {"color":"blue"}\nsay: Painted.', outputs: true }),
];

async function thread() {
  const agent = new HttpAgent({ url: base + path + "/ag-ui", headers });
  let usage = 0;
  const steps = 1 + Math.floor(Math.random() * 3);
  for (let i = 0; i < steps; i++) {
    const { order, answer, outputs } = pick(orders)();
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: order });
    let end = await runThrough(agent, {});
    usage += end.event.usage[0].totalTokens;
    if (answer !== undefined) {
      assert.equal(end.outcome, "interrupt");
      end = await runThrough(agent, { resume: [{ interruptId: end.interrupts[0].id, status: "resolved", payload: answer }] });
      usage += end.event.usage[0].totalTokens;
    }
    if (outputs) {
      assert.equal(end.pendingToolCallIds.length, 2);
      for (const id of end.pendingToolCallIds) {
        const called = agent.messages.flatMap((m) => m.toolCalls ?? []).find((c) => c.id === id);
        assert.match(called.function.arguments, /^\{"color":"(red|blue)"\}$/);
        agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: id, content: "done" });
      }
      end = await runThrough(agent, {});
      usage += end.event.usage[0].totalTokens;
    }
    assert.equal(end.outcome, "success");
    assert.deepEqual(end.pendingToolCallIds, []);
  }
  // What the client shows is what the session has, and each step is charged once.
  const { data: [session] } = await call("GET", `${path}/sessions?externalId=${agent.threadId}`);
  const messages = await call("GET", `${path}/sessions/${session.id}/messages?limit=100`);
  const texts = (list) => list.filter((text) => text !== "");
  assert.deepEqual(
    texts(agent.messages.filter((m) => m.role === "assistant").map((m) => m.content ?? "")),
    texts(messages.data.filter((m) => m.role === "assistant").map((m) => m.text)),
  );
  const receipts = await call("GET", `${path}/sessions/${session.id}/receipts?limit=100`);
  assert.equal(usage, receipts.data.reduce((n, r) => n + r.usage.totalTokens, 0));
  assert.equal(session.turn.number, steps);
}

test(`${threads} random threads with cuts`, async () => {
  for (let i = 0; i < threads; i++) await thread();
  assert.deepEqual(warnings, []);
});
