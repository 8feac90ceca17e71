// The managed settings and their draft, as forms change them: the settings in force and those of the
// draft by name, and the result of the check of each. Start with useDraftForm.
import { useState } from "preact/hooks";
import { type Api, Problem } from "../../lib/api";
import type { Config, ConfigCheck, ConfigDraft, ConfigItem, ConfigProblem, ConfigVersion, ConfigVersionList } from "../../lib/contract";
import { Notice } from "./basic";
import { useAction } from "./form";
import type { Ends } from "./resource";
import { useSession } from "./session";

export const draftPath = "/config/draft";
export const mask = "********"; // keeps the stored key of a provider
export const added = "It is in the draft. Apply the draft to use it";

export type Value = Record<string, unknown>;
export interface Route {
  provider: string;
  model?: string;
  weight?: number;
  traits?: Value;
}

// A Document is the managed settings in the form of the configuration file.
export interface Document {
  providers?: Value[];
  families?: Record<string, Route[]>;
  models?: Record<string, Value>;
  auto?: string[];
  aliases?: { match: string; model: string }[];
  plans?: Record<string, Value>;
}

export type Kind = ConfigItem["kind"];

export interface All {
  config: Config;
  draft: ConfigDraft;
  check?: ConfigCheck; // of a draft that exists
  versions: ConfigVersion[];
}

export async function readSettings(api: Api, signal: AbortSignal): Promise<All> {
  const [config, draft, versions] = await Promise.all([
    api.get<Config>("/config", undefined, signal),
    api.get<ConfigDraft>(draftPath, undefined, signal),
    api.get<ConfigVersionList>("/config/versions", { limit: 20 }, signal),
  ]);
  return { config, draft, check: draft.exists ? await checkDraft(api, signal) : undefined, versions: versions.data };
}

async function checkDraft(api: Api, signal?: AbortSignal): Promise<ConfigCheck> {
  return (await api.raw("POST", draftPath + "/check", { signal })).json();
}

// edit changes the draft, unless another operator changed it in the meantime, and returns the result
// of change.
export async function edit<T>(api: Api, change: (doc: Document) => T): Promise<T> {
  const { data, etag } = await api.read<ConfigDraft>(draftPath);
  const doc = structuredClone(data.settings) as Document;
  const result = change(doc);
  for (const [name, value] of Object.entries(doc)) if (Object.keys(value as object).length === 0) delete doc[name as keyof Document];
  await api.raw("PUT", draftPath, { body: { settings: doc }, headers: { "If-Match": etag } });
  return result;
}

// A Setting is a named setting in force, in the draft, or both.
export interface Setting {
  kind: Kind;
  name: string;
  item?: ConfigItem; // in force
  draft?: Value; // in the draft
  value: Value; // that of the draft, with the members in force for a model and a plan
  change?: "new" | "changed" | "removed"; // by the draft
  fixed: boolean; // the file or a variable sets it
  problems: ConfigProblem[]; // with paths within the setting
}

const members = { provider: "providers", family: "families", model: "models", auto: "auto", alias: "aliases", plan: "plans" } as const;

// pathOf returns the path of a setting in the document, as the check names it.
export function pathOf(doc: Document, kind: Kind, name: string): string {
  if (kind === "auto") return "auto";
  if (kind === "provider") return `providers[${(doc.providers ?? []).findIndex((p) => p.name === name)}]`;
  if (kind === "alias") return `aliases[${(doc.aliases ?? []).findIndex((a) => a.match === name)}]`;
  return `${members[kind]}.${name}`;
}

function drafted(doc: Document, kind: Kind): [string, Value][] {
  switch (kind) {
    case "provider":
      return (doc.providers ?? []).map((p) => [String(p.name), p]);
    case "alias":
      return (doc.aliases ?? []).map((a) => [a.match, { ...a }]);
    case "auto":
      return doc.auto ? [["auto", { models: doc.auto }]] : [];
    case "family":
      return Object.entries(doc.families ?? {}).map(([name, routes]) => [name, { routes }]);
    default:
      return Object.entries(doc[members[kind] as "models" | "plans"] ?? {});
  }
}

// within returns the problems of a setting, with paths that begin there.
function within(problems: ConfigProblem[], path: string): ConfigProblem[] {
  return problems.filter((p) => p.path === path || (p.path.startsWith(path) && ".[".includes(p.path[path.length]!))).map((p) => ({ ...p, path: p.path.slice(path.length).replace(/^\./, "") }));
}

// settingsOf returns the settings of a kind: those in force, then the new ones of the draft.
export function settingsOf(all: All, kind: Kind): Setting[] {
  const doc = all.draft.settings as Document;
  const inDraft = new Map(drafted(doc, kind));
  const items = new Map(all.config.data.filter((i) => i.kind === kind).map((i) => [i.name, i]));
  return [...new Set([...items.keys(), ...inDraft.keys()])].map((name) => {
    const item = items.get(name);
    const draft = inDraft.get(name);
    const change = all.check?.changes.find((c) => c.path === (kind === "auto" ? "auto" : `${members[kind]}.${name}`));
    const fixed = !!item?.where;
    const merges = kind === "model" || kind === "plan";
    return {
      kind,
      name,
      item,
      draft,
      value: fixed || !draft ? item!.value : merges ? { ...item?.value, ...draft } : draft,
      change: change && (!change.before ? (item && merges ? "changed" : "new") : !change.after ? "removed" : "changed"),
      fixed,
      problems: draft ? within(all.check?.problems ?? [], pathOf(doc, kind, name)) : [],
    };
  });
}

const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

export interface DraftForm {
  action: ReturnType<typeof useAction>;
  name?: string; // of the setting in the draft; undefined before a new one is saved
  // at returns the problem of a member, for its field.
  at: (member: string) => string | undefined;
  // left returns the problems that at has not returned; see [Rest].
  left: () => ConfigProblem[];
  saved: boolean;
  // save changes the draft. change returns the kind and the name of the setting; the form stays open
  // while the check finds problems there.
  save: (change: (doc: Document) => [Kind, string]) => void;
  onClose: () => void;
}

// useDraftForm saves a form to the draft and shows what the check finds at its fields.
export function useDraftForm(of: Setting | undefined, ends: Ends): DraftForm {
  const { api } = useSession();
  const [problems, setProblems] = useState(of?.problems ?? []);
  const [saved, setSaved] = useState("");
  const action = useAction({ repeats: true });
  const shown = new Set<ConfigProblem>();
  const texts = new Map<string, string | undefined>(); // by member
  const save = (change: (doc: Document) => [Kind, string]) =>
    action.run(async () => {
      let path = "";
      let name = "";
      try {
        await edit(api, (doc) => {
          const of = change(doc);
          name = of[1];
          path = pathOf(doc, ...of);
        });
      } catch (error) {
        const found = error instanceof Problem ? within([{ path: error.param?.replace(/^settings\./, "") ?? "", message: error.message, where: null }], path) : [];
        if (found.length === 0) throw error;
        setProblems(found);
        return;
      }
      const found = within((await checkDraft(api)).problems, path);
      if (found.length === 0) return ends.onDone(added);
      setProblems(found);
      setSaved(name);
    });
  return {
    action,
    name: saved || of?.name,
    save,
    at: (member) => {
      if (texts.has(member)) return texts.get(member);
      const found = problems.filter((p) => !shown.has(p) && (p.path === member || (p.path.startsWith(member) && ".[".includes(p.path[member.length] ?? "?"))));
      for (const p of found) shown.add(p);
      texts.set(member, found.map((p) => sentence(p.message)).join(" ") || undefined);
      return texts.get(member);
    },
    left: () => problems.filter((p) => !shown.has(p)),
    saved: saved !== "",
    onClose: saved ? () => ends.onDone() : ends.onClose,
  };
}

// Rest shows the problems without a field. It is the last part of a form, so that all fields have theirs before.
export function Rest({ of }: { of: DraftForm }) {
  return (
    <>
      {of.left().map((p) => (
        <Notice meaning="failed">
          <p class="breaks">
            {p.path && <code>{p.path}</code>} {sentence(p.message)}
          </p>
        </Notice>
      ))}
      {of.saved && <p class="small muted">It is saved in the draft, which cannot be applied before this is solved.</p>}
    </>
  );
}

const move = <T,>(list: T[], from: number, to: number): T[] => list.toSpliced(from, 1).toSpliced(to, 0, list[from]!);

// orderOf returns the entries of a menu that change the order of a list.
export function orderOf<T>(list: T[], i: number, onChange: (list: T[]) => void) {
  return [
    { title: "Move up", when: i > 0, onClick: () => onChange(move(list, i, i - 1)) },
    { title: "Move down", when: i < list.length - 1, onClick: () => onChange(move(list, i, i + 1)) },
    { title: "Remove", when: true, danger: true, onClick: () => onChange(list.toSpliced(i, 1)) },
  ].filter((a) => a.when);
}
