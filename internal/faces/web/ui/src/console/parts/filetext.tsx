// The text of a file: whether the agent can read it, why not, and what it reads.
import { useState } from "preact/hooks";
import type { DriveFile } from "../../lib/agents";
import { Badge, Button, type Meaning, Notice } from "./basic";
import { SelectField } from "./fields";
import { useAction } from "./form";
import { kindOf } from "./filekind";
import { Failure, Skeleton, useLoad } from "./load";
import { pictures } from "./picture";
import { toast } from "./toast";
import { useSession } from "./session";

type Status = DriveFile["textStatus"];

// What a status means: a short label and a sentence. A file that is read, or that has no
// text by its nature, needs neither.
const words: Partial<Record<Status, [Meaning, string, string]>> = {
  partial: ["info", "Partly read", "Only the beginning of this document is read: it exceeds a limit."],
  pending: ["waiting", "Not read yet", "The text will be read soon. Until then the agent cannot find it."],
  empty: ["info", "No text", "This document contains no text, such as scanned pages. The agent cannot find it by its words."],
  encrypted: ["failed", "Encrypted", "This document needs a password, so the agent cannot read it."],
  broken: ["failed", "Damaged", "This file is damaged or has the wrong type. The agent cannot read it."],
  timeout: ["failed", "Too large to read", "Reading this file exceeds a limit of time, memory or space. The agent cannot read it."],
  unsupported: ["info", "Not readable", "Documents of this kind are not read. The agent cannot find them by their words."],
  failed: ["failed", "Not read", "The service failed to read this file, which may be intact. Its operator finds the cause in the log."],
  unknown_encoding: ["failed", "Unknown encoding", "The encoding of this text is unknown. Select it, so that the agent can read the text."],
};

// Reads says whether the agent can read a file, and if not, why.
export function Reads({ of }: { of: DriveFile }) {
  const word = words[of.textStatus] ?? wordOfNone(of);
  if (!word) return <span class="small muted">{of.textStatus === "none" ? "As a picture" : "Yes"}</span>;
  return (
    <span class="nowrap" title={of.textNote ?? word[2]}>
      {word[0] !== "waiting" && of.textStatus !== "partial" && <span class="small muted">No </span>}<Badge meaning={word[0]}>{word[1]}</Badge>
    </span>
  );
}

// wordOfNone says why a file has no text, unless models see it as a picture.
function wordOfNone(of: DriveFile): [Meaning, string, string] | undefined {
  const { title } = kindOf(of);
  if (of.textStatus !== "none" || pictures.includes(of.mimeType)) return;
  if (title === "PDF" || title === "Word document" || title === "Spreadsheet" || title === "Slides") return ["failed", `Not a ${title === "Slides" ? "presentation" : title === "PDF" ? title : title.toLowerCase()}`, "The content is not what the name of the file says. The agent cannot read it."];
  return ["info", "Not a text", "This file is neither a text nor a document. The agent knows only its name."];
}

// isDocument reports whether the text of a file is not its content.
export const isDocument = (f: DriveFile) => f.text && (!!f.pages || !!f.textEncoding || /^(text\/html|application\/xhtml\+xml|message\/rfc822)/.test(f.mimeType) || /\.(x?html?|eml)$/i.test(f.path));

const encodings: [string, string][] = [
  ["", "Select an encoding"],
  ["utf-8", "Unicode (UTF-8)"],
  ["utf-16le", "Unicode (UTF-16 LE)"],
  ["utf-16be", "Unicode (UTF-16 BE)"],
  ["windows-1252", "Western European (Windows-1252)"],
  ["windows-1250", "Central European (Windows-1250)"],
  ["iso-8859-2", "Central European (ISO 8859-2)"],
  ["windows-1251", "Cyrillic (Windows-1251)"],
  ["koi8-r", "Cyrillic (KOI8-R)"],
  ["windows-1253", "Greek (Windows-1253)"],
  ["windows-1254", "Turkish (Windows-1254)"],
  ["windows-1255", "Hebrew (Windows-1255)"],
  ["windows-1256", "Arabic (Windows-1256)"],
  ["windows-1257", "Baltic (Windows-1257)"],
  ["windows-1258", "Vietnamese (Windows-1258)"],
  ["windows-874", "Thai (Windows-874)"],
  ["gb18030", "Chinese, simplified (GB 18030)"],
  ["big5", "Chinese, traditional (Big5)"],
  ["shift_jis", "Japanese (Shift JIS)"],
  ["euc-jp", "Japanese (EUC-JP)"],
  ["iso-2022-jp", "Japanese (ISO 2022-JP)"],
  ["euc-kr", "Korean (EUC-KR)"],
];

// TextStatus says why a file is not read, and reads it again.
export function TextStatus({ of, root, writes, onRead }: { of: DriveFile; root: string; writes: boolean; onRead: () => void }) {
  const { api, offers } = useSession();
  const [encoding, setEncoding] = useState("");
  const action = useAction({ repeats: true });
  const word = words[of.textStatus] ?? wordOfNone(of);
  const encoded = of.textStatus === "unknown_encoding" || !!of.textEncoding;
  const again = () =>
    action.run(async () => {
      const reply = await api.raw("POST", root + "/files/reread", { body: { path: of.path, textEncoding: encoding || undefined } });
      toast(reply.status === 202 ? "The file will be read soon" : "The file was read again");
      onRead();
    });
  if (!word && !isDocument(of)) return null;
  return (
    <div class="stack">
      {word && (
        <Notice meaning={word[0] === "failed" || word[0] === "waiting" ? word[0] : "info"}>
          {of.textNote ?? word[2]}
        </Notice>
      )}
      {!word && of.textNote && <p class="small muted">{of.textNote}</p>}
      {writes && of.textStatus !== "none" && offers("rereadDriveFile") && (
        <div class="row">
          {encoded && <SelectField id="encoding" label="Encoding" options={encodings} value={encoding || of.textEncoding?.toLowerCase() || ""} onChange={setEncoding} />}
          <Button small icon="again" disabled={action.busy || (of.textStatus === "unknown_encoding" && !encoding)} onClick={again}>
            Read again
          </Button>
        </div>
      )}
      {action.problem && <Failure problem={action.problem} />}
    </div>
  );
}

const longestText = 1 << 20; // characters

// ReadText shows the text of a file as the agent reads it.
export function ReadText({ root, of }: { root: string; of: DriveFile }) {
  const { api } = useSession();
  const text = useLoad(async (signal) => (await api.raw("GET", root + "/files/text", { query: { path: of.path }, signal })).text(), [api, root, of.path, of.updatedAt, of.textEncoding]);
  if (text.problem) return <Failure problem={text.problem} retry={text.reload} />;
  if (text.data === undefined) return <Skeleton />;
  return (
    <>
      <textarea class="input code" rows={18} readOnly aria-label={"Text of " + of.path} spellcheck={false} value={text.data.slice(0, longestText)} />
      {text.data.length > longestText && <p class="small muted">The text is longer than what is shown here.</p>}
    </>
  );
}
