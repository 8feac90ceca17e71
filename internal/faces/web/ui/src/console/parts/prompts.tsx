// Saved prompts of the playground: under a name in this browser, or in a link. Neither
// is sent to the service.
import { useState } from "preact/hooks";
import type { Effort } from "../../lib/responses";
import { useSession } from "./session";
import { Button } from "./basic";
import { TextField } from "./fields";
import { Dialog } from "./dialog";

export interface Settings {
  model: string;
  compared: string; // a second model to compare; empty for none
  instructions: string;
  maxTokens: string;
  effort: Effort | ""; // not sent if empty
  temperature: string; // not sent if empty
  tools: string; // JSON, an array; empty for none
  schema: string; // JSON, the schema of the reply; empty for plain text
}

export const plain: Settings = { model: "auto", compared: "", instructions: "", maxTokens: "", effort: "", temperature: "", tools: "", schema: "" };

// A Prompt is the content of a call without the earlier conversation.
export interface Prompt {
  settings: Settings;
  text: string;
}

interface Saved extends Prompt {
  name: string;
}

const mostSaved = 50;
const longestName = 80;
const longestPrompt = 100_000; // characters, as JSON
const longestLink = 8000; // characters of the prompt in an address

// promptOf parses a prompt from a link or the storage; undefined if it is invalid. It
// checks the type of every member and drops unknown ones.
function promptOf(from: unknown): Prompt | undefined {
  const { settings, text } = (from ?? {}) as Partial<Prompt>;
  if (typeof settings !== "object" || settings === null || typeof text !== "string") return undefined;
  const out: Settings = { ...plain };
  for (const name of Object.keys(plain) as (keyof Settings)[]) {
    const value: unknown = settings[name];
    if (typeof value === "string") (out as unknown as Record<string, string>)[name] = value;
  }
  return { settings: out, text };
}

// linkOf returns the address of the playground with a prompt in its fragment, which is
// sent to no server; undefined for one that is too long.
export function linkOf(prompt: Prompt): string | undefined {
  const bytes = new TextEncoder().encode(JSON.stringify(prompt));
  const packed = btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join("")).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  return packed.length > longestLink ? undefined : `${location.origin}${location.pathname}#/playground?prompt=${packed}`;
}

// promptOfLink is the inverse; undefined if it is not a prompt.
export function promptOfLink(packed: string): Prompt | undefined {
  if (packed.length > longestLink) return undefined;
  try {
    const bytes = Uint8Array.from(atob(packed.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    return promptOf(JSON.parse(new TextDecoder().decode(bytes)));
  } catch {
    return undefined;
  }
}

function read(place: string): Saved[] {
  try {
    const all = JSON.parse(localStorage.getItem(place) ?? "[]") as unknown[];
    return all
      .map((one) => ({ ...promptOf(one), name: (one as Saved).name }) as Saved)
      .filter((one) => one.settings && typeof one.name === "string")
      .slice(0, mostSaved);
  } catch {
    return [];
  }
}

// Prompts shows the saved prompts of this account in this browser, and saves the
// current one.
export function Prompts({ now, onLoad, onClose }: { now: Prompt; onLoad: (prompt: Prompt) => void; onClose: () => void }) {
  const { me } = useSession();
  const place = "stoa-prompts-" + me.id;
  const [all, setAll] = useState(() => read(place));
  const [name, setName] = useState("");
  const [wrong, setWrong] = useState<string>();
  const write = (next: Saved[]) => {
    try {
      localStorage.setItem(place, JSON.stringify(next));
      setAll(next);
      setWrong(undefined);
      return true;
    } catch {
      setWrong("The browser has no space left for it.");
      return false;
    }
  };
  const known = all.some((p) => p.name === name.trim());
  const save = () => {
    const one = { ...now, name: name.trim() };
    if (JSON.stringify(one).length > longestPrompt) setWrong("It is too long to be saved.");
    else if (!known && all.length >= mostSaved) setWrong(`You can save ${mostSaved} prompts: delete one first.`);
    else if (write([one, ...all.filter((p) => p.name !== one.name)])) setName("");
  };
  return (
    <Dialog title="Saved prompts" onClose={onClose}>
      <form
        class="stack"
        onSubmit={(e) => {
          e.preventDefault();
          if (name.trim()) save();
        }}
      >
        <TextField id="prompt-name" label="Save this prompt as" hint="Model, settings, instructions and message; stored in this browser only." problem={wrong} maxLength={longestName} value={name} onChange={setName} />
        <div>
          <Button kind="main" type="submit" disabled={!name.trim()}>
            {known ? "Replace" : "Save the prompt"}
          </Button>
        </div>
      </form>
      {all.length === 0 ? (
        <p class="muted small">No saved prompts yet.</p>
      ) : (
        <ul class="prompts">
          {all.map((p) => (
            <li key={p.name}>
              <div>
                <b class="breaks">{p.name}</b>
                <div class="small muted clamp">{p.text || p.settings.instructions}</div>
              </div>
              <Button
                small
                onClick={() => {
                  onLoad(p);
                  onClose();
                }}
              >
                Load
              </Button>
              <Button kind="quiet" icon="trash" label={"Delete " + p.name} onClick={() => write(all.filter((x) => x.name !== p.name))} />
            </li>
          ))}
        </ul>
      )}
    </Dialog>
  );
}
