// An Event is one server-sent event.
export interface Event {
  name: string;
  data: string;
}

// readEvents reads server-sent events from the body of a fetch. An EventSource
// cannot send a key in a header or a body, so it is not used anywhere.
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<Event> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let name = "";
  let data: string[] = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      for (;;) {
        const end = /\r\n|\n|\r/.exec(rest);
        // A carriage return at the very end may be half of a line's end.
        if (!end || (!done && end[0] === "\r" && end.index === rest.length - 1)) break;
        const line = rest.slice(0, end.index);
        rest = rest.slice(end.index + end[0].length);
        if (line === "") {
          if (data.length > 0) yield { name: name || "message", data: data.join("\n") };
          name = "";
          data = [];
        } else if (!line.startsWith(":")) {
          const colon = line.indexOf(":");
          const field = colon < 0 ? line : line.slice(0, colon);
          const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
          if (field === "event") name = value;
          else if (field === "data") data.push(value);
        }
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
