// The files of a message that is being written: chosen, pasted or dropped. Each is uploaded at
// once, so that a message is sent without waiting.
import { useRef, useState } from "preact/hooks";
import type { Problem } from "../../lib/api";
import type { Attachment, Upload, VisitorAttachments } from "../../lib/contract";
import { size } from "../../lib/format";
import { Button } from "./basic";
import { SelectField } from "./fields";

export const maxFiles = 10; // of a message

interface Chosen {
  key: number;
  name: string;
  size: number;
  id?: string; // once it is uploaded
  problem?: string;
}

export interface Files {
  list: Chosen[];
  add: (files: Iterable<File>) => void;
  remove: (key: number) => void;
  clear: () => void;
  failed: boolean; // one could not be uploaded
  body: () => Promise<{ attachments?: { uploadId: string }[] } | undefined>; // waits for uploads; undefined if one failed
}

// useFiles returns the files of a message; send uploads one.
export function useFiles(send: (file: File) => Promise<Upload>): Files {
  const [list, setList] = useState<Chosen[]>([]);
  const next = useRef(0);
  const uploads = useRef(new Map<number, Promise<string>>()); // their ids; empty if they failed
  const add = (files: Iterable<File>) => {
    for (const file of files) {
      const key = next.current++;
      const change = (to: Partial<Chosen>) => setList((all) => all.map((f) => (f.key === key ? { ...f, ...to } : f)));
      if (uploads.current.size >= maxFiles) return;
      setList((all) => [...all, { key, name: file.name, size: file.size }]);
      const done = (up: Upload) => (change({ id: up.id, name: up.name }), up.id);
      const failed = (problem: Problem) => (change({ problem: problem.message }), "");
      uploads.current.set(key, send(file).then(done, failed));
    }
  };
  return {
    list,
    add,
    remove: (key) => {
      uploads.current.delete(key);
      setList((all) => all.filter((f) => f.key !== key));
    },
    clear: () => {
      uploads.current.clear();
      setList([]);
    },
    failed: list.some((f) => f.problem !== undefined),
    body: async () => {
      const ids = await Promise.all(uploads.current.values());
      if (ids.includes("")) return undefined;
      return ids.length > 0 ? { attachments: ids.map((uploadId) => ({ uploadId })) } : {};
    },
  };
}

// taking returns the handlers of a field for files that are pasted or dropped. An event without
// files has its usual effect.
export function taking(files: Files | undefined) {
  if (!files) return {};
  const take = (e: Event, data: DataTransfer | null) => {
    if (!data || data.files.length === 0) return;
    e.preventDefault();
    files.add(data.files);
  };
  return {
    onPaste: (e: ClipboardEvent) => take(e, e.clipboardData),
    onDrop: (e: DragEvent) => take(e, e.dataTransfer),
    onDragOver: (e: DragEvent) => e.dataTransfer?.types.includes("Files") && e.preventDefault(),
  };
}

// AttachButton opens the browser's choice of files.
export function AttachButton({ files, label = "Attach files", accept, disabled }: { files: Files; label?: string; accept?: string; disabled?: boolean }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <Button kind="quiet" icon="attach" label={label} disabled={disabled || files.list.length >= maxFiles} onClick={() => input.current?.click()} />
      <input
        ref={input}
        type="file"
        multiple
        hidden
        accept={accept}
        aria-label={label}
        onChange={(e) => {
          files.add(e.currentTarget.files ?? []);
          e.currentTarget.value = "";
        }}
      />
    </>
  );
}

// ChosenFiles lists the files of a message that is being written.
export function ChosenFiles({ files, say = (text: string) => text }: { files: Files; say?: (text: string) => string }) {
  if (files.list.length === 0) return null;
  return (
    <ul class="attached">
      {files.list.map((f) => (
        <li key={f.key} class={"chip" + (f.problem ? " failed" : "")}>
          <span class="name" title={f.name}>
            {f.name}
          </span>
          <span class="small muted">{f.problem ? say(f.problem) : f.id ? size(f.size) : say("Uploading")}</span>
          <Button kind="quiet" small icon="cross" label={say("Remove the file")} onClick={() => files.remove(f.key)} />
        </li>
      ))}
    </ul>
  );
}

// AttachedFiles lists the files of a message; open, if it is set, opens one.
export function AttachedFiles({ of, open }: { of?: Pick<Attachment, "id" | "name" | "size">[]; open?: (file: Pick<Attachment, "id" | "name">) => void }) {
  if (!of || of.length === 0) return null;
  return (
    <ul class="attached">
      {of.map((f) => (
        <li key={f.id} class="chip">
          {open ? (
            <button type="button" class="link name" title={f.name} onClick={() => open(f)}>
              {f.name}
            </button>
          ) : (
            <span class="name" title={f.name}>
              {f.name}
            </span>
          )}
          <span class="small muted">{size(f.size)}</span>
        </li>
      ))}
    </ul>
  );
}

// AttachmentsField chooses the files that visitors may attach.
export function AttachmentsField({ id, value, onChange }: { id: string; value: string; onChange: (value: string) => void }) {
  const options: [string, string][] = [["", "None"], ["usual", "Images, PDF and texts"], ["all", "These, and documents such as DOCX"]];
  return <SelectField id={id} label="Files of visitors" hint="At most 5 in a chat, of 10 MB each. Nothing is scanned for viruses." value={value} onChange={onChange} options={options} />;
}

// choiceOf returns the value of the field for a setting.
export const choiceOf = (a?: VisitorAttachments | null): string => (!a ? "" : a.types.includes("document") ? "all" : "usual");

// settingOf returns the setting for a value of the field.
export const settingOf = (choice: string) => (choice === "" ? null : { enabled: true, ...(choice === "all" && { types: ["image", "pdf", "text", "document"] }) });
