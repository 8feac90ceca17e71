// Drives a live Stoa that has all extensions on: official clients call an agent as a model.
// The server is given by STOA_URL and STOA_API_KEY.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { createOpenResponses } from "@ai-sdk/open-responses";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, setTracingDisabled } from "@openai/agents";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { generateText, Output, streamText } from "ai";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

setTracingDisabled(true);
const url = process.env.STOA_URL;
const apiKey = process.env.STOA_API_KEY;
const baseURL = url + "/api/v1";
const model = "agent/Echo";
const client = () => new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const anthropic = () => new Anthropic({ baseURL: url + "/api", authToken: apiKey, apiKey: null, maxRetries: 0 });

async function call(method, path, body) {
  const r = await fetch(baseURL + path, { method, headers: { Authorization: "Bearer " + apiKey, "Content-Type": "application/json" }, body: body && JSON.stringify(body) });
  const text = await r.text();
  assert.ok(r.ok, `${method} ${path}: ${r.status} ${text}`);
  return JSON.parse(text);
}

let agentId;
before(async () => {
  const space = await call("POST", "/spaces", { name: "Agents" });
  const agent = await call("POST", "/api-agents", { spaceId: space.id, name: "Echo", description: "Repeats.", instructions: "Repeat.", expose: ["responses"] });
  agentId = agent.id;
});

// receipts returns the sums of the receipts of a session.
async function receipts(session) {
  const list = await call("GET", `/api-agents/${agentId}/sessions/${session}/receipts?limit=100`);
  const sum = (name) => list.data.reduce((n, r) => n + r.usage[name], 0);
  return { input: sum("inputTokens"), output: sum("outputTokens"), cached: sum("cachedInputTokens") };
}

test("openai: the list of models has the agent", async () => {
  const ids = [];
  for await (const m of client().models.list()) ids.push(m.id);
  assert.ok(ids.includes(model));
  assert.equal((await client().models.retrieve(model)).id, model);
});

test("openai: one answer, whose usage is that of its receipts", async () => {
  const { data, response } = await client().responses.create({ model, input: "say: One." }).withResponse();
  assert.equal(data.output_text, "One.");
  const sum = await receipts(response.headers.get("stoa-session"));
  assert.deepEqual([data.usage.input_tokens, data.usage.output_tokens, data.usage.input_tokens_details.cached_tokens], [sum.input, sum.output, sum.cached]);
});

test("openai: a stream, a conversation, a question", async () => {
  const first = await client().responses.stream({ model, input: 'call: ask_user {"question":"Which day?","options":["Monday","Friday"]}\nsay: It is open then.' }).finalResponse();
  assert.equal(first.output_text, "It is open then.\n\nWhich day?\n- Monday\n- Friday"); // a remark and the question
  const second = await client().responses.create({ model, input: "Friday", conversation: first.conversation.id });
  assert.equal(second.output_text, "It is open then.");
  assert.equal(second.conversation.id, first.conversation.id);
});

test("openai: in the background", async () => {
  let r = await client().responses.create({ model, input: "wait: 200ms\nsay: Later.", background: true });
  assert.equal(r.status, "queued");
  while (r.status === "queued" || r.status === "in_progress") r = await client().responses.retrieve(r.id);
  assert.equal(r.output_text ?? r.output[0].content[0].text, "Later.");
  const other = await client().responses.create({ model, input: "wait: 10m", background: true });
  assert.equal((await client().responses.cancel(other.id)).status, "cancelled");
});

test("openai: chat completions, whole and streamed, with history", async () => {
  const messages = [{ role: "user", content: "one" }, { role: "assistant", content: "two" }, { role: "user", content: "say: Three." }];
  const whole = await client().chat.completions.create({ model, messages });
  assert.equal(whole.choices[0].message.content, "Three.");
  const stream = await client().chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } });
  let text = "", usage;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, "Three.");
  assert.equal(usage.total_tokens, whole.usage.total_tokens);
});

test("openai: instructions and tools are refused with the reason", async () => {
  await assert.rejects(client().responses.create({ model, input: "x", instructions: "y" }), (e) => e.status === 400 && e.param === "instructions" && /own instructions/.test(e.message));
  await assert.rejects(client().chat.completions.create({ model, messages: [{ role: "system", content: "y" }, { role: "user", content: "x" }] }), (e) => e.status === 400 && /own instructions/.test(e.message));
});

test("anthropic: whole and streamed", async () => {
  const message = { model, max_tokens: 1000, messages: [{ role: "user", content: "say: Four." }] };
  const whole = await anthropic().messages.create(message);
  assert.equal(whole.content[0].text, "Four.");
  const streamed = await anthropic().messages.stream(message).finalMessage();
  assert.equal(streamed.content[0].text, "Four.");
  assert.equal(streamed.usage.output_tokens, whole.usage.output_tokens);
});

test("the AI SDK: three providers", async () => {
  const models = [
    createOpenAI({ baseURL, apiKey }).responses(model), createOpenResponses({ name: "stoa", url: baseURL + "/responses", apiKey })(model),
    createOpenAICompatible({ name: "stoa", baseURL, apiKey })(model),
  ];
  for (const m of models) {
    assert.equal((await generateText({ model: m, prompt: "say: Five." })).text, "Five.");
    const messages = [{ role: "user", content: "one" }, { role: "assistant", content: "two" }, { role: "user", content: "say: Six." }];
    assert.equal(await streamText({ model: m, messages }).text, "Six.");
  }
});

test("LangChain: both forms", async () => {
  for (const useResponsesApi of [true, false]) {
    const llm = new ChatOpenAI({ model, apiKey, useResponsesApi, configuration: { baseURL } });
    assert.equal((await llm.invoke([new HumanMessage("one"), new AIMessage("two"), new HumanMessage("say: Seven.")])).text, "Seven.");
  }
});

test("the OpenAI Agents SDK: both forms", async () => {
  for (const Model of [OpenAIResponsesModel, OpenAIChatCompletionsModel]) {
    const agent = new Agent({ name: "Proxy", model: new Model(client(), model) });
    assert.equal((await new Runner().run(agent, "say: Eight.")).finalOutput, "Eight.");
  }
});

// ticket is a form of answers, as the clients take it.
const ticket = z.object({ drachmas: z.number().int(), days: z.array(z.enum(["Monday", "Friday"])), note: z.string().nullable() });

const answer = { drachmas: 7, days: ["Monday"], note: null };
const asked = "say: " + JSON.stringify(answer);

test("openai: answers by a schema are parsed", async () => {
  const one = await client().responses.parse({ model, input: asked, text: { format: zodTextFormat(ticket, "ticket") } });
  assert.deepEqual(answer, one.output_parsed);
  const session = one.conversation.id;
  const next = await client().responses.parse({ model, input: asked, conversation: session, text: { format: zodTextFormat(ticket, "ticket") } });
  assert.deepEqual(answer, next.output_parsed);
  const stream = client().responses.stream({ model, input: asked, text: { format: zodTextFormat(ticket, "ticket") } });
  assert.deepEqual(answer, (await stream.finalResponse()).output_parsed);
  const chat = await client().chat.completions.parse({ model, messages: [{ role: "user", content: asked }], response_format: zodResponseFormat(ticket, "ticket") });
  assert.deepEqual(answer, chat.choices[0].message.parsed);
  const other = z.object({ other: z.string() });
  await assert.rejects(client().responses.parse({ model, input: asked, conversation: session, text: { format: zodTextFormat(other, "other") } }), /another reply schema/);
});

test("anthropic, AI SDK, LangChain: answers by a schema are parsed", async () => {
  const messages = await anthropic().messages.parse({ model, max_tokens: 1000, messages: [{ role: "user", content: asked }], output_config: { format: zodOutputFormat(ticket) } });
  assert.deepEqual(answer, messages.parsed_output);
  const openai = createOpenAI({ baseURL, apiKey });
  for (const provider of [openai.responses(model), openai.chat(model)]) {
    assert.deepEqual(answer, (await generateText({ model: provider, prompt: asked, output: Output.object({ schema: ticket }), maxRetries: 0 })).output);
  }
  const chain = new ChatOpenAI({ model, apiKey, configuration: { baseURL }, maxRetries: 0 }).withStructuredOutput(ticket, { method: "jsonSchema", name: "ticket" });
  assert.deepEqual(answer, await chain.invoke(asked));
});
