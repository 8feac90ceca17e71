// Drives a live Stoa with clients of chat completions and of Messages. The server is
// given by STOA_URL, STOA_API_KEY, and STOA_POOR_KEY: the key of an account without
// credits. It has all extensions on.
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool as langchainTool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

const url = process.env.STOA_URL;
const apiKey = process.env.STOA_API_KEY;
const openai = (options = {}) => new OpenAI({ baseURL: url + "/api/v1", apiKey, ...options });
const anthropic = (options = {}) => new Anthropic({ baseURL: url + "/api", apiKey, ...options });
const weather = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const chatTools = [{ type: "function", function: { name: "weather", description: "The weather of a city.", parameters: weather } }];
const tools = [{ name: "weather", description: "The weather of a city.", input_schema: weather }];
// Two calls at once and, when their results are there, a text.
const twoCalls = 'think: 40\ncall: weather {"city":"Oslo"}\ncall: weather {"city":"Rome"}\nsay: Both are sunny';
const counting = (of, options = {}) => {
  const seen = { n: 0 };
  return [of({ fetch: (...args) => { seen.n++; return fetch(...args); }, ...options }), seen];
};

// The models of the four wires that the fake vendors speak, and the sandbox.
const models = ["alpha-haiku-4-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"];

test("chat: a whole reply", async () => {
  const r = await openai().chat.completions.create({ model: "auto", messages: [{ role: "user", content: "say: Hello" }] });
  assert.equal(r.choices[0].message.content, "Hello");
  assert.equal(r.choices[0].finish_reason, "stop");
  assert.equal(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens);
  assert.match(r._request_id, /^req_/);
});

test("chat: a stream with its usage", async () => {
  const s = await openai().chat.completions.create({ model: "auto", stream: true, stream_options: { include_usage: true }, messages: [{ role: "user", content: "say: a b c 🙂" }] });
  let text = "", usage, ends = 0;
  for await (const c of s) {
    if (c.choices.length) { text += c.choices[0].delta.content ?? ""; ends += c.choices[0].finish_reason ? 1 : 0; } else usage = c.usage;
  }
  assert.equal(text, "a b c 🙂");
  assert.equal(ends, 1);
  assert.ok(usage.total_tokens > 0);
});

for (const model of models) {
  test(`chat: three rounds of parallel calls, streamed, on ${model}`, async () => {
    const messages = [{ role: "system", content: "Use the tools." }, { role: "user", content: twoCalls }];
    for (let round = 0; round < 3; round++) {
      const s = openai().chat.completions.stream({ model, messages, tools: chatTools });
      const m = (await s.finalChatCompletion()).choices[0].message;
      assert.deepEqual(m.tool_calls.map((c) => JSON.parse(c.function.arguments).city), ["Oslo", "Rome"]);
      assert.equal(new Set(m.tool_calls.map((c) => c.id)).size, 2);
      messages.push(m, ...m.tool_calls.map((c) => ({ role: "tool", tool_call_id: c.id, content: JSON.parse(c.function.arguments).city + " is sunny" })));
      const last = await openai().chat.completions.create({ model, messages, tools: chatTools });
      assert.match(last.choices[0].message.content, /sunny/);
      messages.push(last.choices[0].message, { role: "user", content: twoCalls });
    }
  });
}

test("chat: a failure in a stream is thrown", async () => {
  const s = await openai({ maxRetries: 0 }).chat.completions.create({ model: "auto", stream: true, messages: [{ role: "user", content: "tokens: 20\nfail: 500 after 3" }] });
  await assert.rejects(async () => { for await (const c of s) assert.ok(c.choices); }, (e) => e instanceof OpenAI.APIError);
});

test("chat: errors name the client's members", async () => {
  const create = (body) => openai({ maxRetries: 0 }).chat.completions.create({ model: "auto", messages: [{ role: "user", content: "x" }], ...body });
  await assert.rejects(create({ n: 2 }), (e) => e instanceof OpenAI.BadRequestError && e.param === "n");
  await assert.rejects(create({ messages: [{ role: "tool", tool_call_id: "c", content: "x" }] }), (e) => e.param === "messages[0].tool_call_id");
  await assert.rejects(create({ tools: [{ type: "function", function: { name: "a b" } }] }), (e) => e.param === "tools[0].function.name");
  const [poor, seen] = counting(openai, { apiKey: process.env.STOA_POOR_KEY });
  await assert.rejects(poor.chat.completions.create({ model: "auto", messages: [{ role: "user", content: "x" }] }), (e) => e.code === "insufficient_quota");
  assert.equal(seen.n, 1);
});

test("chat: a schema", async () => {
  const r = await openai().chat.completions.create({
    model: "auto", messages: [{ role: "user", content: 'say: {"city":"Oslo"}' }],
    response_format: { type: "json_schema", json_schema: { name: "place", strict: true, schema: weather } },
  });
  assert.equal(typeof JSON.parse(r.choices[0].message.content).city, "string");
});

test("chat: the AI SDK runs tools and keeps the reasoning", async () => {
  const bodies = [];
  // It sends the member back for a provider of that name alone.
  const provider = createOpenAICompatible({ name: "google", baseURL: url + "/api/v1", apiKey, fetch: (u, o) => { bodies.push(JSON.parse(o.body)); return fetch(u, o); } });
  const r = await generateText({
    model: provider("alpha-haiku-4-5"), prompt: twoCalls, stopWhen: stepCountIs(3),
    tools: { weather: tool({ description: "The weather.", inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => city + " is sunny" }) },
  });
  assert.match(r.text, /sunny/);
  assert.equal(bodies.length, 2);
  const sent = JSON.stringify(bodies[1]);
  assert.match(sent, /stoa1\./);
});

test("chat: LangChain binds tools", async () => {
  const sunny = langchainTool(async ({ city }) => city + " is sunny", { name: "weather", description: "The weather.", schema: z.object({ city: z.string() }) });
  const model = new ChatOpenAI({ model: "alpha-haiku-4-5", apiKey, configuration: { baseURL: url + "/api/v1" } }).bindTools([sunny]);
  const messages = [new HumanMessage(twoCalls)];
  const first = await model.invoke(messages);
  assert.equal(first.tool_calls.length, 2);
  messages.push(first);
  for (const c of first.tool_calls) messages.push(new ToolMessage({ tool_call_id: c.id, content: await sunny.invoke(c.args) }));
  assert.match((await model.invoke(messages)).text, /sunny/);
});

test("messages: a whole reply", async () => {
  const r = await anthropic().messages.create({ model: "auto", max_tokens: 100, messages: [{ role: "user", content: "say: Hello" }] });
  assert.deepEqual(r.content, [{ type: "text", text: "Hello" }]);
  assert.equal(r.stop_reason, "end_turn");
  assert.ok(r.usage.output_tokens > 0);
  assert.match(r._request_id, /^req_/);
});

test("messages: the stream helper", async () => {
  const s = anthropic().messages.stream({ model: "auto", max_tokens: 1000, system: "Be brief.", messages: [{ role: "user", content: "say: a b c 🙂" }] });
  let text = "";
  s.on("text", (t) => { text += t; });
  const m = await s.finalMessage();
  assert.equal(text, "a b c 🙂");
  assert.equal(m.content[0].text, text);
  assert.equal(m.stop_reason, "end_turn");
});

for (const model of models) {
  test(`messages: three rounds of parallel calls, streamed, on ${model}`, async () => {
    const messages = [{ role: "user", content: twoCalls }];
    for (let round = 0; round < 3; round++) {
      const m = await anthropic().messages.stream({ model, max_tokens: 1000, messages, tools }).finalMessage();
      const calls = m.content.filter((b) => b.type === "tool_use");
      assert.equal(m.stop_reason, "tool_use");
      assert.deepEqual(calls.map((c) => c.input.city), ["Oslo", "Rome"]);
      messages.push({ role: "assistant", content: m.content },
        { role: "user", content: calls.map((c) => ({ type: "tool_result", tool_use_id: c.id, content: c.input.city + " is sunny" })) });
      const last = await anthropic().messages.create({ model, max_tokens: 1000, messages, tools });
      assert.match(last.content.at(-1).text, /sunny/);
      messages.push({ role: "assistant", content: last.content }, { role: "user", content: twoCalls });
    }
  });
}

test("messages: a tool without arguments, and a reply of a call alone", async () => {
  const m = await anthropic().messages.stream({ model: "auto", max_tokens: 1000, messages: [{ role: "user", content: "empty\ncall: ping {}" }], tools: [{ name: "ping", input_schema: { type: "object", properties: {} } }] }).finalMessage();
  assert.deepEqual(m.content.filter((b) => b.type !== "thinking").map((b) => [b.type, b.input]), [["tool_use", {}]]);
});

test("messages: errors have their classes", async () => {
  const create = (body, options) => anthropic({ maxRetries: 0, ...options }).messages.create({ model: "auto", max_tokens: 9, messages: [{ role: "user", content: "x" }], ...body });
  await assert.rejects(create({}, { apiKey: "sk_wrong" }), (e) => e instanceof Anthropic.AuthenticationError && e.error.error.type === "authentication_error");
  await assert.rejects(create({ container: "c" }), (e) => e instanceof Anthropic.BadRequestError && /^container: /.test(e.error.error.message));
  await assert.rejects(create({ messages: [{ role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: "x" }] }] }), (e) => /^messages\.0\.content\.0\.tool_use_id: /.test(e.error.error.message));
  const [poor, seen] = counting(anthropic, { apiKey: process.env.STOA_POOR_KEY });
  await assert.rejects(poor.messages.create({ model: "auto", max_tokens: 9, messages: [{ role: "user", content: "x" }] }), (e) => e.status === 402 && e.error.error.type === "billing_error");
  assert.equal(seen.n, 1);
  await assert.rejects(create({ model: "alpha-haiku-4-5", messages: [{ role: "user", content: "fail: 529" }] }), (e) => e.status === 529 && e.error.error.type === "overloaded_error");
  const s = anthropic({ maxRetries: 0 }).messages.stream({ model: "auto", max_tokens: 100, messages: [{ role: "user", content: "tokens: 20\nfail: 500 after 3" }] });
  await assert.rejects(s.finalMessage(), (e) => e instanceof Anthropic.APIError);
});

test("messages: the AI SDK runs tools", async () => {
  const provider = createAnthropic({ baseURL: url + "/api/v1", apiKey });
  const r = streamText({
    model: provider("alpha-haiku-4-5"), prompt: twoCalls, stopWhen: stepCountIs(3),
    tools: { weather: tool({ description: "The weather.", inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => city + " is sunny" }) },
  });
  assert.match(await r.text, /sunny/);
});
