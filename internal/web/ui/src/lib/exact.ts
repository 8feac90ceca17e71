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

// memberText returns the text of a member of a JSON object, or undefined.
export function memberText(text: string, name: string): string | undefined {
  let depth = 0;
  let key = false; // a name comes next
  let from = -1; // of the requested value
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (c === '"') {
      const end = stringEnd(text, i);
      if (depth === 1 && key && from < 0) {
        key = false;
        if (JSON.parse(text.slice(i, end)) === name) {
          from = text.indexOf(":", end) + 1;
          i = from - 1;
          continue;
        }
      }
      i = end - 1;
    } else if (c === "{" || c === "[") {
      depth++;
      key = depth === 1;
    } else if (c === "}" || c === "]") {
      depth--;
      if (depth === 0 && from >= 0) return text.slice(from, i).trim();
    } else if (c === "," && depth === 1) {
      if (from >= 0) return text.slice(from, i).trim();
      key = true;
    }
  }
  return undefined;
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
