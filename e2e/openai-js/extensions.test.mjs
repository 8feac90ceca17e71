// Drives a live Stoa that has all extensions on, with clients of the Responses format.
// The server is given by STOA_URL and STOA_API_KEY.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenResponses } from "@ai-sdk/open-responses";
import { createOpenAI } from "@ai-sdk/openai";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { tool as langchainTool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { Agent, OpenAIResponsesModel, Runner, setTracingDisabled, tool as agentTool } from "@openai/agents";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

setTracingDisabled(true);
const url = process.env.STOA_URL;
const apiKey = process.env.STOA_API_KEY;
const baseURL = url + "/api/v1";
const client = () => new OpenAI({ baseURL, apiKey });
const weather = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const tools = [{ type: "function", name: "weather", description: "The weather of a city.", parameters: weather, strict: true }];
// Two calls at once and, when their results are there, a text.
const twoCalls = 'think: 40\ncall: weather {"city":"Oslo"}\ncall: weather {"city":"Rome"}\nsay: Both are sunny';
const schema = z.object({ city: z.string() });
// The models of the four wires that the fake vendors speak.
const models = ["alpha-haiku-4-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"];

for (const model of models) {
  test(`openai: three rounds of parallel calls, streamed, on ${model}`, async () => {
    let input = [{ role: "user", content: twoCalls }];
    for (let round = 0; round < 3; round++) {
      const r = await client().responses.stream({ model, input, tools, store: false, include: ["reasoning.encrypted_content"] }).finalResponse();
      const calls = r.output.filter((i) => i.type === "function_call");
      assert.deepEqual(calls.map((c) => JSON.parse(c.arguments).city), ["Oslo", "Rome"]);
      assert.equal(new Set(calls.map((c) => c.call_id)).size, 2);
      input = [...input, ...r.output, ...calls.map((c) => ({ type: "function_call_output", call_id: c.call_id, output: JSON.parse(c.arguments).city + " is sunny" }))];
      const last = await client().responses.create({ model, input, tools, store: false });
      assert.equal(last.output_text, "Both are sunny");
      input = [...input, ...last.output, { role: "user", content: twoCalls }];
    }
  });

  test(`the AI SDK, openai: a tool loop on ${model}`, async () => {
    const bodies = [];
    const provider = createOpenAI({ baseURL, apiKey, fetch: (u, o) => { bodies.push(JSON.parse(o.body)); return fetch(u, o); } });
    const r = streamText({
      model: provider.responses(model), prompt: twoCalls, stopWhen: stepCountIs(3), providerOptions: { openai: { store: false, include: ["reasoning.encrypted_content"] } },
      tools: { weather: tool({ description: "The weather.", inputSchema: schema, execute: async ({ city }) => city + " is sunny" }) },
    });
    assert.match(await r.text, /sunny/);
    assert.equal((await r.steps).length, 2);
    assert.equal(bodies.length, 2);
  });

  test(`LangChain: a tool loop on ${model}`, async () => {
    const sunny = langchainTool(async ({ city }) => city + " is sunny", { name: "weather", description: "The weather.", schema });
    const llm = new ChatOpenAI({ model, apiKey, useResponsesApi: true, zdrEnabled: true, configuration: { baseURL } }).bindTools([sunny]);
    const messages = [new HumanMessage(twoCalls)];
    const first = await llm.invoke(messages);
    assert.equal(first.tool_calls.length, 2);
    messages.push(first);
    for (const c of first.tool_calls) messages.push(new ToolMessage({ tool_call_id: c.id, content: await sunny.invoke(c.args) }));
    assert.match((await llm.invoke(messages)).text, /sunny/);
  });

  test(`the OpenAI Agents SDK: a tool loop on ${model}`, async () => {
    let ran = 0;
    const agent = new Agent({
      name: "Weather", instructions: "Use the tool.", model: new OpenAIResponsesModel(client(), model),
      modelSettings: { store: false },
      tools: [agentTool({ name: "weather", description: "The weather.", parameters: schema, execute: async ({ city }) => { ran++; return city + " is sunny"; } })],
    });
    const r = await new Runner().run(agent, twoCalls);
    assert.match(r.finalOutput, /sunny/);
    assert.equal(ran, 2);
  });
}

test("the AI SDK, open-responses: a tool loop", async () => {
  const provider = createOpenResponses({ name: "stoa", url: baseURL + "/responses", apiKey });
  const r = await generateText({
    model: provider("alpha-haiku-4-5"), prompt: twoCalls, stopWhen: stepCountIs(3),
    tools: { weather: tool({ description: "The weather.", inputSchema: schema, execute: async ({ city }) => city + " is sunny" }) },
  });
  assert.match(r.text, /sunny/);
});

test("openai: a reply is parsed by its schema", async () => {
  const r = await client().responses.parse({ model: "gamma-6.1-sol", input: 'say: {"city":"Oslo"}', text: { format: zodTextFormat(schema, "place") } });
  assert.deepEqual(r.output_parsed, { city: "Oslo" });
});

test("openai: a refusal is no object", async () => {
  const r = await client().responses.parse({ model: "gamma-6.1-sol", input: "refuse: I will not.", text: { format: zodTextFormat(schema, "place") } });
  assert.equal(r.output_parsed, null);
  assert.equal(r.output[0].content[0].refusal, "I will not.");
});

test("the AI SDK: an object", async () => {
  const provider = createOpenAI({ baseURL, apiKey });
  const r = await generateText({ model: provider.responses("beta-3.8-flash"), prompt: 'say: {"city":"Oslo"}', output: Output.object({ schema }) });
  assert.deepEqual(r.output, { city: "Oslo" });
});

test("openai: the list of models", async () => {
  const ids = [];
  for await (const model of client().models.list()) ids.push(model.id);
  assert.equal(ids[0], "auto");
  assert.deepEqual(models.filter((m) => !ids.includes(m)), []);
  assert.equal((await client().models.retrieve("gamma-6.1-sol")).id, "gamma-6.1-sol");
  await assert.rejects(client().models.retrieve("nope"), (e) => e instanceof OpenAI.NotFoundError);
});

test("openai: counting", async () => {
  const r = await client().responses.inputTokens.count({ model: "auto", input: "Why is the sky blue?" });
  assert.ok(r.input_tokens > 3);
});
