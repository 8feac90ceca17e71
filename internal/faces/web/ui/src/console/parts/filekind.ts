// The kind of a file in words.
import type { DriveFile } from "../../lib/agents";
import type { IconName } from "./icon";

interface Kind {
  title: string;
  icon: IconName;
}

// By the end of the name, because types that programs declare are often vague.
const byEnding: Record<string, Kind> = {};
const add = (endings: string, title: string, icon: IconName) => endings.split(" ").forEach((e) => (byEnding[e] = { title, icon }));
add("pdf", "PDF", "file");
add("docx doc odt rtf", "Word document", "text");
add("xlsx xls ods", "Spreadsheet", "sheet");
add("csv tsv", "Table (CSV)", "sheet");
add("pptx ppt odp", "Slides", "slides");
add("md markdown", "Markdown", "text");
add("txt log", "Text", "text");
add("htm html xhtml", "Web page", "text");
add("eml msg", "Mail", "mail");
add("json jsonl ndjson", "JSON", "text");
add("yaml yml toml xml", "Data file", "text");
add("png jpg jpeg gif webp avif svg bmp tif tiff heic", "Picture", "picture");
add("zip gz tar 7z rar", "Archive", "folder");

const byType: [RegExp, Kind][] = [
  [/^application\/pdf/, byEnding.pdf!],
  [/wordprocessing|msword/, byEnding.docx!],
  [/spreadsheet|ms-excel/, byEnding.xlsx!],
  [/presentation|powerpoint/, byEnding.pptx!],
  [/^image\//, byEnding.png!],
  [/^audio\//, { title: "Sound", icon: "file" }],
  [/^video\//, { title: "Video", icon: "picture" }],
  [/^text\/|json|xml/, byEnding.txt!],
];

export function kindOf(f: Pick<DriveFile, "path" | "mimeType">): Kind {
  const ending = /\.([^./]+)$/.exec(f.path)?.[1]?.toLowerCase() ?? "";
  return byEnding[ending] ?? byType.find(([type]) => type.test(f.mimeType))?.[1] ?? { title: "Other file", icon: "file" };
}

// isPDF reports whether the pages of a file can be drawn.
export const isPDF = (f: Pick<DriveFile, "path" | "mimeType" | "pages">) => !!f.pages && kindOf(f).title === "PDF";
