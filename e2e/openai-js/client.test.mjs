// Drives a live Stoa with the official JavaScript client. The server is given by
// STOA_URL, STOA_API_KEY, and STOA_POOR_KEY: the key of an
// account without credits.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";

const baseURL = process.env.STOA_URL + "/api/v1";
const client = (options = {}) => new OpenAI({ baseURL, apiKey: process.env.STOA_API_KEY, ...options });
const counting = (options = {}) => {
  const seen = { n: 0 };
  const fetch_ = (...args) => { seen.n++; return fetch(...args); };
  return [client({ fetch: fetch_, ...options }), seen];
};

test("a whole reply", async () => {
  const r = await client().responses.create({ model: "alpha-haiku-4-5", input: "say: Hello" });
  assert.equal(r.output_text, "Hello");
  assert.equal(r.status, "completed");
  assert.equal(r.usage.total_tokens, r.usage.input_tokens + r.usage.output_tokens);
  assert.match(r._request_id, /^req_/);
});

test("iterating a stream", async () => {
  const s = await client().responses.create({ model: "beta-3.8-flash", input: "say: a b c 🙂", stream: true });
  let text = "", n = 0, last;
  for await (const e of s) {
    assert.equal(e.sequence_number, n++);
    if (e.type === "response.output_text.delta") text += e.delta;
    last = e;
  }
  assert.equal(text, "a b c 🙂");
  assert.equal(last.type, "response.completed");
});

test("the stream helper, which checks ids, indexes and lifecycles", async () => {
  const s = client().responses.stream({ model: "auto", input: "tokens: 40", instructions: "Be brief." });
  const kinds = new Set();
  for await (const e of s) kinds.add(e.type);
  const r = await s.finalResponse();
  assert.equal(r.status, "completed");
  assert.ok(r.output_text.length > 0);
  assert.equal(kinds.size, 9);
});

test("an empty reply", async () => {
  const r = await client().responses.stream({ model: "auto", input: "empty" }).finalResponse();
  assert.equal(r.output[0].content[0].text, "");
});

test("several turns", async () => {
  const first = await client().responses.create({ model: "auto", input: "say: one" });
  const second = await client().responses.create({
    model: "auto",
    input: [{ role: "user", content: "say: one" }, ...first.output, { role: "user", content: [{ type: "input_text", text: "say: two" }] }],
  });
  assert.equal(second.output_text, "two");
});

test("errors have their classes", async () => {
  await assert.rejects(client({ apiKey: "sk_wrong" }).responses.create({ model: "auto", input: "x" }),
    (e) => e instanceof OpenAI.AuthenticationError && e.code === "Unauthorized");
  await assert.rejects(client().responses.create({ model: "nope", input: "x" }),
    (e) => e instanceof OpenAI.BadRequestError && e.code === "model_not_found" && e.param === "model");
  await assert.rejects(client().responses.create({ model: "auto", input: "x", previous_response_id: "resp_1" }),
    (e) => e instanceof OpenAI.BadRequestError && e.param === "previous_response_id");
  await assert.rejects(client().models.list(), (e) => e instanceof OpenAI.NotFoundError);
});

test("too few credits are said once and not retried", async () => {
  const [c, seen] = counting({ apiKey: process.env.STOA_POOR_KEY });
  await assert.rejects(c.responses.create({ model: "auto", input: "x" }),
    (e) => e instanceof OpenAI.RateLimitError && e.code === "insufficient_quota");
  assert.equal(seen.n, 1);
});

test("an overloaded vendor is a 503 that the client retries", async () => {
  const [c, seen] = counting({ maxRetries: 1 });
  await assert.rejects(c.responses.create({ model: "alpha-haiku-4-5", input: "fail: 529" }), (e) => e.status === 503);
  assert.equal(seen.n, 2);
});

test("a stream that breaks throws, in both ways of reading it", async () => {
  const input = "tokens: 50\ncut: 5";
  await assert.rejects(async () => {
    for await (const e of await client().responses.create({ model: "alpha-haiku-4-5", input, stream: true })) void e;
  });
  await assert.rejects(client().responses.stream({ model: "alpha-haiku-4-5", input }).finalResponse());
});

test("an abort ends the call", async () => {
  const c = new AbortController();
  await assert.rejects(async () => {
    const s = await client().responses.create({ model: "alpha-haiku-4-5", input: "tokens: 10000\nslow: 5ms", stream: true }, { signal: c.signal });
    for await (const e of s) if (e.type === "response.output_text.delta") c.abort();
    throw new Error("the loop ended by itself");
  }, (e) => !/by itself/.test(e.message) || c.signal.aborted);
});
