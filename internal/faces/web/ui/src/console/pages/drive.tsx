// The files of an agent: folders, upload by drag and drop, view, edit, search.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Api } from "../../lib/api";
import { size, count, of as plural } from "../../lib/format";
import { saveFile } from "../../lib/save";
import { onceKey } from "../../lib/api";
import { markdown } from "../../lib/markdown";
import type { Drive, DriveFile, DriveFileList, DriveSearchResult, DriveVersionList } from "../../lib/agents";
import { Badge, Button, Time } from "../parts/basic";
import { Confirm, Dialog } from "../parts/dialog";
import { Icon } from "../parts/icon";
import { AreaField, TextField } from "../parts/fields";
import { ConfirmAction, FormDialog, useAction } from "../parts/form";
import { asProblem, Empty, Failure, Skeleton, States, useLoad } from "../parts/load";
import { isPDF, kindOf } from "../parts/filekind";
import { type Cited, FilePages } from "../parts/filepages";
import { isDocument, Reads, ReadText, TextStatus } from "../parts/filetext";
import { Menu } from "../parts/menu";
import { Picture, pictures } from "../parts/picture";
import { Table } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { toast } from "../parts/toast";
import { dropped, type Piece, picked, unpacked, UploadList, useUploads } from "../parts/uploads";
import { useFilter, useUnsaved } from "../parts/router";
import { useSession } from "../parts/session";

export function DriveView({ agentId, folder }: { agentId: string; folder: string }) {
  const { api, may, offers } = useSession();
  const root = `/api-agents/${agentId}/drive`;
  // An address without a trailing slash denotes a file.
  const prefix = folder.slice(0, folder.lastIndexOf("/") + 1);
  const writes = may("drive:write");
  const [limit, setLimit] = useState(100);
  const drive = useLoad((signal) => api.get<Drive>(root, undefined, signal), [api, root]);
  const files = useLoad(
    async (signal) => {
      const all: DriveFileList = { data: [], commonPrefixes: [], nextCursor: null, hasMore: false };
      let cursor: string | undefined;
      do {
        const page = await api.get<DriveFileList>(root + "/files", { prefix: prefix || undefined, delimiter: "/", limit: 100, cursor }, signal);
        all.data.push(...page.data);
        all.commonPrefixes.push(...page.commonPrefixes);
        all.hasMore = page.hasMore;
        cursor = page.nextCursor ?? undefined;
      } while (cursor && all.data.length + all.commonPrefixes.length < limit);
      return all;
    },
    [api, root, prefix, limit],
  );
  const [open, setOpen] = useState<string | undefined>(folder === prefix ? undefined : folder);
  const [{ page, from, to, sha }] = useFilter(); // of a source of an answer
  const [making, setMaking] = useState(false);
  const [chosen, setChosen] = useState<string[]>([]);
  const [doing, setDoing] = useState<"delete" | "move">();
  const [over, setOver] = useState(false);
  const picker = useRef<HTMLInputElement>(null);
  const folderPicker = useRef<HTMLInputElement>(null);
  const zipPicker = useRef<HTMLInputElement>(null);
  useEffect(() => setChosen([]), [prefix]);
  const choose = (path: string, on: boolean) => setChosen((all) => (on ? [...all, path] : all.filter((p) => p !== path)));
  const reload = () => {
    setChosen([]);
    files.reload();
    drive.reload();
  };

  const zip = async () => {
    try {
      saveFile(await (await api.raw("GET", root + "/export")).blob(), "drive.zip");
    } catch (error) {
      toast(asProblem(error).message, "failed");
    }
  };

  // What the drive cannot take is not sent. Only a replaced file makes room.
  const taken = useRef(0); // bytes of this page's uploads since the usage was loaded
  useEffect(() => void (taken.current = 0), [drive.data]);
  const refuse = async (path: string, bytes: number) => {
    const { maxFileBytes, maxBytes, bytes: used } = drive.data ?? {};
    if (maxFileBytes === undefined || maxBytes === undefined || used === undefined) return;
    if (bytes > maxFileBytes) return `It has ${size(bytes)}; a file can have ${size(maxFileBytes)}. It was not sent.`;
    if (used + taken.current + bytes > maxBytes) {
      const { data } = await api.get<DriveFileList>(root + "/files", { prefix: path, limit: 1 });
      const before = data[0]?.path === path ? data[0].size : 0;
      const left = Math.max(maxBytes - used - taken.current, 0);
      if (bytes - before > left) return `It has ${size(bytes)}, and ${size(left)} of the drive's ${size(maxBytes)} are left. It was not sent.`;
      taken.current -= before;
    }
    taken.current += bytes;
    return;
  };
  const uploads = useUploads(api, root, prefix, refuse, reload);
  const send = async (given: Piece[] | Promise<Piece[]>) => {
    try {
      const pieces = await given;
      if (pieces.length > 0) await uploads.send(pieces);
      else toast("It contains no files", "failed");
    } catch (error) {
      toast(error instanceof Error && !(error instanceof DOMException) ? error.message : "The browser could not read it", "failed");
    }
  };
  const take = (input: HTMLInputElement) => {
    const archive = input === zipPicker.current && input.files?.[0];
    void send(archive ? unpacked(archive) : picked(input.files ?? []));
    input.value = ""; // selecting the same file again is a change
  };

  return (
    <>
      <Search root={root} onOpen={setOpen} />
      <section
        class={"panel drop" + (over ? " over" : "")}
        aria-label="Files"
        onDragOver={(e) => {
          if (!writes || !e.dataTransfer?.types.includes("Files")) return;
          e.preventDefault();
          setOver(true);
        }}
        onDragLeave={(e) => e.currentTarget === e.target && setOver(false)}
        onDrop={(e) => {
          setOver(false);
          if (!writes || !e.dataTransfer) return;
          e.preventDefault();
          void send(dropped(e.dataTransfer));
        }}
      >
        <header>
          <Crumbs agentId={agentId} prefix={prefix} />
          <span class="small muted">
            {drive.data && `${count(drive.data.files)} of ${count(drive.data.maxFiles)} files, ${size(drive.data.bytes)} of ${size(drive.data.maxBytes)}`}
          </span>
          {writes && (
            <div class="row push">
              <input ref={picker} class="unseen" type="file" multiple tabIndex={-1} aria-label="Files to upload" onChange={(e) => take(e.currentTarget)} />
              <input ref={folderPicker} class="unseen" type="file" {...{ webkitdirectory: true }} tabIndex={-1} aria-label="Folder to upload" onChange={(e) => take(e.currentTarget)} />
              <input ref={zipPicker} class="unseen" type="file" accept=".zip,application/zip" tabIndex={-1} aria-label="Zip to unpack" onChange={(e) => take(e.currentTarget)} />
              <Button small icon="upload" onClick={() => picker.current?.click()}>
                Upload
              </Button>
              <Button small icon="folder" onClick={() => folderPicker.current?.click()}>
                Upload a folder
              </Button>
              <Button small icon="plus" onClick={() => setMaking(true)}>
                Write a file
              </Button>
              <Menu
                label="Actions"
                items={[
                  { title: "Unpack a zip", onClick: () => zipPicker.current?.click() },
                  ...(offers("exportDrive") ? [{ title: "Download all", onClick: () => void zip() }] : []),
                ]}
              />
            </div>
          )}
        </header>
        <UploadList of={uploads} />
        {chosen.length > 0 && (
          <div class="row selection" role="status">
            <span class="small">{plural(chosen.length, "file")} selected</span>
            <Button small icon="folder" onClick={() => setDoing("move")}>
              Move
            </Button>
            <Button small icon="trash" onClick={() => setDoing("delete")}>
              Delete
            </Button>
            <Button small kind="quiet" onClick={() => setChosen((files.data?.data ?? []).slice(0, mostAtOnce).map((f) => f.path))}>
              Select all
            </Button>
            <Button small kind="quiet" onClick={() => setChosen([])}>
              Clear
            </Button>
          </div>
        )}
        <States of={files}>
          {(list) =>
            list.data.length + list.commonPrefixes.length === 0 ? (
              <Empty title={prefix ? "This folder is empty" : "No files yet"}>
                <p>The drive contains the agent's knowledge. {writes && "Drop files or folders here, or create a file."}</p>
              </Empty>
            ) : (
              <>
                <Table
                  label="Files"
                  rows={[...list.commonPrefixes.map((p) => ({ id: p, folder: p, file: undefined })), ...list.data.map((f) => ({ id: f.path, folder: undefined, file: f }))]}
                  columns={[
                    {
                      title: "Name",
                      show: (r) =>
                        r.folder ? (
                          <a class="entry" href={`#/agents/${agentId}/drive/${encodeURIComponent(r.folder)}`}>
                            <Icon name="folder" />
                            {r.folder.slice(prefix.length)}
                          </a>
                        ) : (
                          <span class="entry">
                            {writes && (
                              <input
                                type="checkbox"
                                aria-label={"Select " + r.file!.path}
                                disabled={chosen.length >= mostAtOnce && !chosen.includes(r.file!.path)}
                                checked={chosen.includes(r.file!.path)}
                                onChange={(e) => choose(r.file!.path, e.currentTarget.checked)}
                              />
                            )}
                            <button type="button" class="entry link" onClick={() => setOpen(r.file!.path)}>
                              <Icon name={kindOf(r.file!).icon} />
                              {r.file!.path.slice(prefix.length)}
                            </button>
                          </span>
                        ),
                    },
                    { title: "Kind", keep: 1, show: (r) => <span class="small muted nowrap">{r.file ? kindOf(r.file).title : "Folder"}</span> },
                    { title: "Agent reads it", keep: 3, named: true, show: (r) => r.file && <Reads of={r.file} /> },
                    { title: "Size", number: true, show: (r) => (r.file ? size(r.file.size) : "") },
                    { title: "Changed", show: (r) => r.file && <Time at={r.file.updatedAt} /> },
                  ]}
                />
                {list.hasMore && (
                  <div class="more">
                    <Button onClick={() => setLimit(limit + 500)} disabled={files.loading}>
                      Show more
                    </Button>
                  </div>
                )}
              </>
            )
          }
        </States>
      </section>
      {open !== undefined && <FileDialog root={root} path={open} writes={writes} cited={page && open === folder ? { page: Number(page), from: from ?? "", to: to ?? "", sha } : undefined} onClose={() => setOpen(undefined)} onChanged={reload} />}
      {doing === "delete" && (
        <ConfirmAction
          title={`Delete ${plural(chosen.length, "file")}?`}
          action="Delete the files"
          work={() => batch(api, root, chosen.map((path) => ({ op: "delete", path })))}
          said={`${plural(chosen.length, "file")} deleted`}
          onDone={(said) => {
            if (said) toast(said);
            setDoing(undefined);
            reload();
          }}
          onClose={() => setDoing(undefined)}
        >
          <p>The agent will not find them any more. Earlier contents are kept as versions.</p>
        </ConfirmAction>
      )}
      {doing === "move" && (
        <MoveFiles
          root={root}
          paths={chosen}
          prefix={prefix}
          onDone={() => {
            setDoing(undefined);
            reload();
          }}
          onClose={() => setDoing(undefined)}
        />
      )}
      {making && <NewFile root={root} prefix={prefix} onClose={() => setMaking(false)} onMade={reload} />}
    </>
  );
}

const mostAtOnce = 500; // operations of one request

// batch changes many files: all of them, or none.
const batch = (api: Api, root: string, operations: unknown[]) => api.raw("POST", root + "/batch", { body: { operations }, headers: { "Idempotency-Key": onceKey() } });

function MoveFiles({ root, paths, prefix, onDone, onClose }: { root: string; paths: string[]; prefix: string; onDone: () => void; onClose: () => void }) {
  const { api } = useSession();
  const [to, setTo] = useState(prefix);
  const action = useAction();
  const folder = to.trim().replace(/\/+$/, "");
  const submit = () =>
    action.run(async () => {
      await batch(api, root, paths.map((from) => ({ op: "move", from, to: (folder && folder + "/") + from.slice(from.lastIndexOf("/") + 1) })));
      toast(`${plural(paths.length, "file")} moved`);
      onDone();
    });
  return (
    <FormDialog id="move-files" title={`Move ${plural(paths.length, "file")}`} submit="Move" ready={folder !== prefix.replace(/\/$/, "")} action={action} onSubmit={submit} onClose={onClose}>
      <TextField id="move-folder" label="Folder" hint="Separate folders by /. Empty is the top of the drive. If one file cannot be moved, none is." code spellcheck={false} value={to} onChange={setTo} autofocus />
    </FormDialog>
  );
}

function Crumbs({ agentId, prefix }: { agentId: string; prefix: string }) {
  const parts = prefix.split("/").filter(Boolean);
  return (
    <nav class="crumbs" aria-label="Folder">
      <a href={`#/agents/${agentId}/drive`}>Drive</a>
      {parts.map((name, i) => (
        <>
          <span class="muted">/</span>
          <a href={`#/agents/${agentId}/drive/${encodeURIComponent(parts.slice(0, i + 1).join("/") + "/")}`}>{name}</a>
        </>
      ))}
    </nav>
  );
}

function Search({ root, onOpen }: { root: string; onOpen: (path: string) => void }) {
  const { api, offers } = useSession();
  const [query, setQuery] = useState("");
  const [asked, setAsked] = useState("");
  useEffect(() => {
    const wait = setTimeout(() => setAsked(query.trim()), 200);
    return () => clearTimeout(wait);
  }, [query]);
  const found = useLoad<DriveSearchResult>((signal) => (asked ? api.get<DriveSearchResult>(root + "/search", { q: asked }, signal) : Promise.resolve({ data: [], cut: false })), [api, root, asked]);
  if (!offers("searchDrive")) return null;
  return (
    <search class="stack">
      <label class="unseen" for="drive-search">
        Search the files
      </label>
      <input id="drive-search" class="input" type="search" placeholder="Search the files" value={query} onInput={(e) => setQuery(e.currentTarget.value)} />
      {asked && (
        <section class="panel" aria-label="Search results">
          <States of={found}>
            {(list) => (
              <>
                {list.data.length === 0 && !list.cut && (
                  <Empty title="Nothing found">
                    <p>No results.</p>
                  </Empty>
                )}
                <ul class="hits">
                  {list.cut && <li class="small muted">The search was stopped because it took too long. Try more specific words.</li>}
                  {list.data.map((h) => (
                    <li>
                      <button type="button" class="link" onClick={() => onOpen(h.path)}>
                        {h.path}
                      </button>{" "}
                      <span class="small muted">
                        {h.place ?? `lines ${h.startLine} to ${h.endLine}`}
                      </span>
                      <p class="small breaks">
                        <Highlighted text={h.snippet} query={asked} />
                      </p>
                    </li>
                  ))}
                </ul>
              </>
            )}
          </States>
        </section>
      )}
    </search>
  );
}

function FileDialog({ root, path, writes, cited, onClose, onChanged }: { root: string; path: string; writes: boolean; cited?: Cited & { sha?: string }; onClose: () => void; onChanged: () => void }) {
  const { api, offers } = useSession();
  const file = useLoad(
    async (signal) => {
      const meta = await api.get<DriveFile>(root + "/files/metadata", { path }, signal);
      const content = () => api.raw("GET", root + "/files/content", { query: { path }, signal });
      const small = meta.text && meta.size <= 1 << 20;
      const text = small ? decoded(await (await content()).arrayBuffer()) : undefined;
      const shown = pictures.includes(meta.mimeType) && meta.size <= largestPicture;
      const picture = shown ? new Blob([await (await content()).blob()], { type: meta.mimeType }) : undefined;
      return { meta, text, picture };
    },
    [api, root, path],
  );
  const [draft, setDraft] = useState<string>();
  const { busy, problem, run: attempt } = useAction({ repeats: true });
  const [deleting, setDeleting] = useState(false);
  const [chosen, setView] = useState<string>();
  const [moving, setMoving] = useState<string>();
  const dirty = draft !== undefined && draft !== file.data?.text;
  useUnsaved(dirty);
  const move = () =>
    attempt(async () => {
      const to = moving!.trim();
      await api.raw("POST", root + "/files/move", { body: { from: path, to }, headers: { "Idempotency-Key": onceKey() } });
      toast(`${path} is now ${to}`);
      onChanged();
      onClose();
    });
  const save = () =>
    attempt(async () => {
      const { meta } = file.data!;
      await api.raw("PUT", root + "/files", { body: { path, content: draft, mimeType: meta.mimeType }, headers: { "If-Match": `"${meta.sha256}"` } });
      toast("Saved");
      setDraft(undefined);
      file.reload();
      onChanged();
    });
  const remove = () =>
    attempt(async () => {
      const versions = await api.get<DriveVersionList>(root + "/files/versions", { path });
      const last = versions.data.find((v) => v.current)?.version;
      await api.remove(root + "/files", { path });
      const undo = async () => {
        try {
          await restore(api, root, path, last!);
          toast(`${path} is back`);
          onChanged();
        } catch (error) {
          toast(asProblem(error).message, "failed");
        }
      };
      toast(`${path} is deleted`, "ok", last === undefined ? undefined : { title: "Undo", run: undo });
      onChanged();
      onClose();
    });
  const download = () =>
    attempt(async () => {
      const reply = await api.raw("GET", root + "/files/content", { query: { path } });
      saveFile(await reply.blob(), path.split("/").at(-1)!);
    });
  const text = draft ?? file.data?.text;
  const meta = file.data?.meta;
  const read = meta !== undefined && isDocument(meta);
  const drawn = meta !== undefined && isPDF(meta) && offers("getDriveFilePage");
  const view = chosen ?? (drawn ? "pages" : read && text === undefined ? "text" : "content");
  return (
    <Dialog
      title={path}
      wide
      stays={dirty}
      onClose={onClose}
      footer={
        file.problem?.status !== 404 && <>
          {writes && (
            <Button kind="danger" icon="trash" disabled={busy} onClick={() => setDeleting(true)}>
              Delete
            </Button>
          )}
          <Button icon="download" disabled={busy} onClick={download}>
            Download
          </Button>
          {dirty && <Button onClick={() => setDraft(undefined)}>Discard changes</Button>}
          {writes && file.data?.text !== undefined && (
            <Button kind="main" disabled={busy || !dirty} onClick={save}>
              Save
            </Button>
          )}
        </>
      }
    >
      {file.problem && <Failure problem={file.problem} retry={file.reload} />}
      {!file.data && file.loading && <Skeleton />}
      {meta && (
        <p class="small muted breaks">
          <span title={meta.mimeType}>{kindOf(meta).title}</span>, {size(meta.size)}
          {!!meta.pages && `, ${plural(meta.pages, "page")}`}
          {meta.textEncoding && `, ${meta.textEncoding}`}, changed <Time at={meta.updatedAt} />
        </p>
      )}
      {meta && (
        <TextStatus
          of={meta}
          root={root}
          writes={writes}
          onRead={() => {
            file.reload();
            onChanged();
          }}
        />
      )}
      {meta && (
        <Tabs
          label="File"
          tabs={[...(drawn ? [{ id: "pages", title: "Pages" }] : []), ...((read || drawn) && text === undefined && !file.data?.picture ? [] : [{ id: "content", title: "Content" }]), ...(read ? [{ id: "text", title: "Text" }] : []), ...(meta.mimeType === "text/markdown" && text !== undefined ? [{ id: "preview", title: "Preview" }] : []), { id: "history", title: "History" }, ...(writes ? [{ id: "move", title: "Rename or move" }] : [])]}
          active={view}
          onChange={setView}
        />
      )}
      {view === "pages" && meta ? (
        // Lines of another content would mark other words.
        <FilePages root={root} of={meta} cited={cited && (cited.sha && cited.sha !== meta.sha256 ? { page: cited.page, from: "", to: "" } : cited)} />
      ) : view === "text" && meta ? (
        <ReadText root={root} of={meta} />
      ) : view === "history" ? (
        <History
          root={root}
          path={path}
          writes={writes}
          onRestored={() => {
            setView("content");
            setDraft(undefined);
            file.reload();
            onChanged();
          }}
        />
      ) : view === "preview" ? (
        <Rendered text={text ?? ""} />
      ) : view === "move" ? (
        <form
          class="stack"
          onSubmit={(e) => {
            e.preventDefault();
            void move();
          }}
        >
          <TextField id="move-to" label="New path" hint="Folders separated by /." code value={moving ?? path} onChange={(text) => setMoving(text)} spellcheck={false} />
          <div class="row">
            <Button type="submit" disabled={busy || !moving?.trim() || moving.trim() === path || moving.endsWith("/")}>
              Move
            </Button>
          </div>
        </form>
      ) : file.data?.picture ? (
        <Picture of={file.data.picture} name={path} />
      ) : text !== undefined ? (
        <textarea class="input code" rows={18} readOnly={!writes} aria-label={"Content of " + path} spellcheck={false} value={text} onInput={(e) => setDraft(e.currentTarget.value)} />
      ) : (
        file.data && <p>{file.data.meta.text ? "The file is too long to be edited here." : "The content cannot be shown here."}</p>
      )}
      {problem && <Failure problem={problem} />}
      {deleting && (
        <Confirm title="Delete the file?" action="Delete the file" busy={busy} onConfirm={remove} onClose={() => setDeleting(false)}>
          <p>
            The agent will not find <code>{path}</code> any more. Earlier contents are kept as versions.
          </p>
        </Confirm>
      )}
    </Dialog>
  );
}

// decoded returns content that is a text in UTF-8, which can be edited here.
const decoded = (content: ArrayBuffer) => {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
};

// restore restores a version as the content of its path.
const restore = (api: Api, root: string, path: string, version: number) => api.raw("POST", root + "/files/restore", { body: { path, version }, headers: { "Idempotency-Key": onceKey() } });

const largestPicture = 10 << 20; // bytes

// Rendered shows Markdown like the chat: nothing in it is loaded or executed.
function Rendered({ text }: { text: string }) {
  const at = useRef<HTMLDivElement>(null);
  useEffect(() => at.current?.replaceChildren(markdown(text)), [text]);
  return <div ref={at} class="reply rendered" tabIndex={0} role="region" aria-label="Preview" />;
}

function History({ root, path, writes, onRestored }: { root: string; path: string; writes: boolean; onRestored: () => void }) {
  const { api } = useSession();
  const versions = useLoad((signal) => api.get<DriveVersionList>(root + "/files/versions", { path }, signal), [api, root, path]);
  const action = useAction({ repeats: true });
  const back = (version: number) =>
    action.run(async () => {
      await restore(api, root, path, version);
      toast(`Version ${version} is restored`);
      onRestored();
    });
  return (
    <>
      <States of={versions}>
        {(list) => (
          <Table
            label="Versions of the file"
            rows={list.data.map((v) => ({ ...v, id: v.version }))}
            columns={[
              { title: "Version", show: (v) => <span class="nowrap">{v.version} {v.current && <Badge meaning="accent">now</Badge>}</span> },
              {
                title: "Written",
                show: (v) => (
                  <>
                    <Time at={v.createdAt} />
                    <div class="small muted">{size(v.size)}</div>
                  </>
                ),
              },
              {
                title: "",
                show: (v) =>
                  writes &&
                  !v.current && (
                    <Button small disabled={action.busy} onClick={() => back(v.version)}>
                      Restore
                    </Button>
                  ),
              },
            ]}
          />
        )}
      </States>
      {action.problem && <Failure problem={action.problem} />}
    </>
  );
}

// Highlighted shows a text with the search terms marked.
function Highlighted({ text, query }: { text: string; query: string }) {
  const words = query.toLowerCase().split(/[\s"]+/).filter((w) => w.length > 1);
  if (words.length === 0) return <>{text}</>;
  const found = new RegExp("(" + words.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|") + ")", "gi");
  return <>{text.split(found).map((part, i) => (i % 2 ? <mark>{part}</mark> : part))}</>;
}

function NewFile({ root, prefix, onClose, onMade }: { root: string; prefix: string; onClose: () => void; onMade: () => void }) {
  const { api } = useSession();
  const [path, setPath] = useState(prefix);
  const [content, setContent] = useState("");
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      await api.raw("PUT", root + "/files", { body: { path: path.trim(), content }, headers: { "If-None-Match": "*" } });
      onMade();
      onClose();
    });
  const problem = action.problem;
  const where = problem?.param === "path" || problem?.code === "precondition_failed";
  return (
    <FormDialog id="new-file" title="Write a file" wide submit="Write the file" ready={!!path.trim() && !path.endsWith("/")} action={action} shown={where} onSubmit={submit} onClose={onClose}>
        <TextField id="path" label="Path" hint="Separate folders by /. They are created automatically." problem={where ? (problem!.status === 412 ? "This path already has a file." : problem!.message) : undefined} code spellcheck={false} value={path} onChange={setPath} autofocus />
        <AreaField id="content" label="Content" code rows={12} spellcheck={false} value={content} onChange={setContent} />
    </FormDialog>
  );
}
