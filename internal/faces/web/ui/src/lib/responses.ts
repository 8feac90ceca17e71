// One streamed model call.

import { type Api, Problem } from "./api";
import { readEvents } from "./sse";
import type * as contract from "./contract";
import type { Price } from "./types";

export interface Message {
  role: "user" | "assistant";
  content: string | Part[];
}

// A Part is a piece of a message with images.
export type Part = { type: "input_text"; text: string } | { type: "input_image"; image_url: string };

// An Output is an unchanged item of an earlier reply, or the result of a tool call.
export type Output = { type: string } & Record<string, unknown>;

// A ToolCall is a call of a tool in a reply.
export interface ToolCall {
  id: string; // that its result names
  name: string;
  arguments: string;
  cut: boolean; // cut off by the maximum length of the reply
}

export type Effort = NonNullable<NonNullable<contract.CreateResponse["reasoning"]>["effort"]>;

export interface Call {
  model: string;
  input: (Message | Output)[];
  tools?: unknown[];
  text?: { format: unknown };
  instructions?: string;
  max_output_tokens?: number;
  temperature?: number;
  reasoning?: { effort: Effort };
}

export type Usage = NonNullable<contract.Response["usage"]>;

// A Reply is the part of a reply that has arrived.
export interface Reply {
  id: string;
  model: string;
  text: string;
  status: "in_progress" | "completed" | "incomplete";
  reason?: string; // the reason why it is incomplete
  usage: Usage | null;
  calls: ToolCall[];
  output?: Output[]; // of a reply with more than text: the items for the next call
  firstAfter?: number; // milliseconds to the first text
  took?: number; // milliseconds to the end
}

// A Raw is a call in its wire format.
export interface Raw {
  request: unknown;
  requestId: string;
  events: string[]; // data of each, up to mostEvents
  left: number; // the number of further events
  response?: unknown; // of the closing event
}

const mostEvents = 1000;

// respond streams a call and calls tell after each event, and tellRaw once before the
// first, with an object that it extends later. It throws a Problem if the service
// fails, and the error of fetch if it is stopped.
export async function respond(api: Api, call: Call, signal: AbortSignal, tell: (reply: Reply) => void, tellRaw: (raw: Raw) => void = () => {}): Promise<Reply> {
  const began = performance.now();
  const body = { ...call, stream: true };
  const http = await api.raw("POST", "/responses", { body, signal });
  const requestId = http.headers.get("x-request-id") ?? "";
  const raw: Raw = { request: body, requestId, events: [], left: 0 };
  tellRaw(raw);
  let reply: Reply = { id: "", model: "", text: "", status: "in_progress", usage: null, calls: [] };
  let ended = false;
  let failure: Problem | undefined;
  for await (const event of readEvents(http.body!)) {
    if (raw.events.length < mostEvents) raw.events.push(event.data);
    else raw.left++;
    if (event.data === "[DONE]") break;
    const data = JSON.parse(event.data) as { type: string; delta?: string; item?: Output; response?: contract.Response; code?: string; message?: string };
    if (data.response) raw.response = data.response;
    switch (data.type) {
      case "response.created":
        reply = { ...reply, id: data.response!.id, model: data.response!.model };
        break;
      case "response.output_item.added":
        if (data.item?.type !== "function_call") continue;
        reply = { ...reply, calls: [...reply.calls, callOf(data.item)], firstAfter: reply.firstAfter ?? performance.now() - began };
        break;
      case "response.function_call_arguments.delta":
        reply = { ...reply, calls: reply.calls.map((c, i) => (i === reply.calls.length - 1 ? { ...c, arguments: c.arguments + data.delta! } : c)) };
        break;
      case "response.refusal.delta":
      case "response.output_text.delta":
        reply = { ...reply, text: reply.text + data.delta!, firstAfter: reply.firstAfter ?? performance.now() - began };
        break;
      case "response.completed":
      case "response.incomplete":
        ended = true;
        reply = {
          ...reply,
          status: data.type === "response.completed" ? "completed" : "incomplete",
          reason: data.response!.incomplete_details?.reason,
          model: data.response!.model,
          usage: data.response!.usage,
          ...itemsOf(data.response!.output as unknown as Output[]),
          took: performance.now() - began,
        };
        break;
      case "error":
        failure = new Problem(200, { code: data.code, message: data.message, requestId, retryable: true });
        break;
      case "response.failed":
        failure ??= new Problem(200, { code: data.response?.error?.code, message: data.response?.error?.message, requestId, retryable: true });
        break;
      default:
        continue; // framing events, and unknown future events
    }
    tell(reply);
  }
  if (failure) throw failure;
  if (!ended) throw new Problem(0, { code: "cut", message: "The reply broke off before its end.", requestId });
  return reply;
}

// itemsOf returns the calls of a finished reply and, if it has more than text, its items.
function itemsOf(output: Output[]): { calls: ToolCall[]; output?: Output[] } {
  const calls = output.filter((item) => item.type === "function_call").map(callOf);
  return { calls, output: output.some((item) => item.type !== "message") ? output : undefined };
}

function callOf(item: Output): ToolCall {
  return { id: String(item.call_id), name: String(item.name), arguments: String(item.arguments ?? ""), cut: item.status === "incomplete" };
}

// estimate returns the cost of a reply by the price list, in micro-credits, without the
// price's hours. The receipt has the actual cost.
export function estimate(usage: Usage, price: Price): number {
  const { cached_tokens: cached, cache_write_tokens: written } = usage.input_tokens_details;
  const long = price.above && usage.input_tokens > price.above.tokens ? price.above : { input: 1, output: 1 };
  const input = (usage.input_tokens - cached - written) * price.inputMicroPerMillion + cached * price.cachedInputMicroPerMillion + written * price.cacheWriteMicroPerMillion;
  return (input * long.input + usage.output_tokens * price.outputMicroPerMillion * long.output) / 1e6;
}
