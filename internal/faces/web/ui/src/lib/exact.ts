// JSON as text: numbers keep their notation, because parsing would round them, and
// invisible characters are escaped.

const hidden = /[\p{Cf}\p{Co}\p{Cn}\u0080-\u009f\u2028\u2029\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f]/gu;

// visible escapes the invisible characters of a text.
export const visible = (text: string): string => text.replace(hidden, (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);

// stringEnd returns the position after the string that begins at a position.
function stringEnd(text: string, from: number): number {
  let i = from + 1;
  while (i < text.length && text[i] !== '"') i += text[i] === "\\" ? 2 : 1;
  return i + 1;
}

// membersOf returns the members of a JSON object: the name of each and the text of its value.
export const membersOf = (text: string): [name: string, value: string][] => (text.trimStart()[0] === "{" ? partsOf(text) : []);

// partsOf returns the members of a JSON object, or the elements of an array without names.
function partsOf(text: string): [name: string, value: string][] {
  const found: [string, string][] = [];
  const array = text.trimStart()[0] === "[";
  let depth = 0;
  let key = false; // a name comes next
  let name = "";
  let from = -1; // of the current value
  const end = (at: number) => {
    const value = from < 0 ? "" : text.slice(from, at).trim();
    if (value) found.push([name, value]);
    from = -1;
  };
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (c === '"') {
      const after = stringEnd(text, i);
      if (key) {
        name = JSON.parse(text.slice(i, after)) as string;
        from = text.indexOf(":", after) + 1;
        key = false;
      }
      i = Math.max(after, from) - 1;
    } else if (c === "{" || c === "[") {
      if (++depth > 1) continue;
      key = !array;
      if (array) from = i + 1;
    } else if (c === "}" || c === "]") {
      if (--depth === 0) end(i);
    } else if (c === "," && depth === 1) {
      end(i);
      key = !array;
      if (array) from = i + 1;
    }
  }
  return found;
}

// texts has the text of each object that a reply calls "arguments".
const texts = new WeakMap<object, string>();

// parse parses a reply and keeps the text of the arguments of tool calls.
export function parse<T>(text: string): T {
  const value = JSON.parse(text) as T;
  if (text.includes('"arguments"')) keep(text, value);
  return value;
}

function keep(text: string, value: unknown): void {
  partsOf(text).forEach(([name, part], i) => {
    const child = (value as Record<string, unknown>)[Array.isArray(value) ? i : name];
    if (typeof child !== "object" || !child) return;
    if (name === "arguments") texts.set(child, part);
    else keep(part, child);
  });
}

// exactText returns the text of arguments as the service sent it.
export const exactText = (of: unknown): string => texts.get(of as object) ?? JSON.stringify(of);

// valueText returns a JSON value in one line. A string is shown without quotes, unless it
// would look like another value.
export function valueText(json: string): string {
  if (json[0] !== '"') return json.replace(/("(?:[^"\\]+|\\.)*")|\s+/g, "$1");
  const text = JSON.parse(json) as string;
  return /^$|^\s|\s$|^[-\d"{[]|^(true|false|null)$/.test(text) ? json : text;
}

// indented breaks a JSON text into lines.
export function indented(text: string): string {
  let out = "";
  let depth = 0;
  const line = () => "\n" + "  ".repeat(depth);
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (c === '"') {
      const end = stringEnd(text, i);
      out += text.slice(i, end);
      i = end - 1;
    } else if (c === "{" || c === "[") {
      const rest = /^\s*[}\]]/.exec(text.slice(i + 1, i + 1000));
      if (rest) {
        out += c + rest[0].trim();
        i += rest[0].length;
      } else {
        depth++;
        out += c + line();
      }
    } else if (c === "}" || c === "]") {
      depth--;
      out += line() + c;
    } else if (c === ",") out += c + line();
    else if (c === ":") out += ": ";
    else if (!/\s/.test(c)) out += c;
  }
  return out;
}
