// Writes the sources of the corpus into SOURCES, the documents of libraries and the expectations into OUT:
//   node make.mjs SOURCES OUT
// Each document has the sentences of texts.tsv with its own number, and perhaps the table of table.tsv.
import fs from "node:fs";
import * as docx from "docx";
import ExcelJS from "exceljs";
import MailComposer from "nodemailer/lib/mail-composer/index.js";
import pptxgen from "pptxgenjs";

const [sources, out] = process.argv.slice(2);
const rows = (name) => fs.readFileSync(name, "utf8").trimEnd().split("\n").map((line) => line.split("\t"));
const texts = rows("texts.tsv");
const [kinds, ...table] = rows("table.tsv");
const latin = ["en", "de", "fr", "pl", "cs", "tr"];
const all = [...latin, "ru", "el", "ar", "he", "ja", "zh"];
const rtl = (lang) => lang === "ar" || lang === "he";
const font = (lang) => (lang === "ja" || lang === "zh" ? "Droid Sans Fallback" : "DejaVu Sans");
const pagesOf = (langs) => Array.from({ length: Math.ceil(langs.length / 3) }, (_, i) => langs.slice(3 * i, 3 * i + 3));
const write = (name, text) => fs.writeFileSync(`${sources}/${name}`, text);

let number = 4100;
const expected = [];
// begin expects the languages of pages in a document, at the places that place names, and the table.
function begin(name, { langs = all, place, grid }) {
  number++;
  if (place) pagesOf(langs).forEach((page, i) => expected.push([name, number, place(i), ...page]));
  else if (langs.length) expected.push([name, number, "", ...langs]);
  if (grid) expected.push([name, number, "", grid]);
  return number;
}
const sentences = (lang, n) => texts.filter(([l]) => l === lang).map(([, text]) => text.replace("{n}", n));
const paged = (i) => `p. ${i + 1}`;

// cells returns the cells of a row that begin there, with what they cover.
const cells = (r) => table[r].flatMap((text, c) => {
  if (text === "=" || text === '"') return [];
  let cols = 1, down = 1;
  while (table[r][c + cols] === "=") cols++;
  while (table[r + down]?.[c] === '"') down++;
  return [{ text, c, cols, down }];
});

// html is the source of browsers, of LibreOffice's writer and of pandoc.
const head = (title, style = "") => `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>${title}</title><style>
body { font: 10pt "DejaVu Sans", "Droid Sans Fallback" } td, th { border: 1px solid } ${style}</style></head><body>
`;
const paragraphs = (langs, n) => langs.map((l) => `<p lang="${l}" dir="${rtl(l) ? "rtl" : "ltr"}">${sentences(l, n).join(" ").replace("keitsb", "keits&shy;b")}</p>\n`).join("");
const htmlTable = () => `<table>${table.map((_, r) => `<tr>${cells(r).map(({ text, cols, down }) => {
  const tag = r < 2 ? "th" : "td";
  return `<${tag}${cols > 1 ? ` colspan="${cols}"` : ""}${down > 1 ? ` rowspan="${down}"` : ""}>${text}</${tag}>`;
}).join("")}</tr>`).join("\n").replace("<tr>", "<thead><tr>").replace("\n<tr><td", "</thead>\n<tbody><tr><td")}</tbody></table>`;
function html(name, documents, langs = all, style) {
  documents.forEach((d, i) => {
    const n = begin(d.name, { langs, ...d });
    write(`${name}${i || ""}.html`, head(`Report ${n}`, style) + pagesOf(langs).map((page, i) =>
      `<h1 style="page-break-before: ${i ? "always" : "auto"}">Part ${i + 1}</h1>\n${paragraphs(page, n)}`).join("") +
      `<h1 style="page-break-before: always">Table</h1>\n${htmlTable()}\n</body></html>\n`);
  });
}
html("chromium", [{ name: "chromium.pdf", place: paged }]);
html("chromium-narrow", [{ name: "chromium-narrow.pdf", place: paged }], all, "p { width: 16em; text-align: justify }");
html("wkhtmltopdf", [{ name: "wkhtmltopdf.pdf", place: paged }]);
html("writer", [{ name: "writer.pdf", place: paged }, { name: "writer.docx", grid: "padded" }, { name: "writer.html", grid: "padded" }]);
html("pandoc", [{ name: "pandoc.docx", grid: "padded" }, { name: "pandoc.html", grid: "padded" }, { name: "pandoc.pptx", place: (i) => `slide ${i + 2}`, grid: "padded" },
  { name: "pandoc.md", grid: "padded" }, { name: "pandoc.rst" }, { name: "pandoc.ipynb" }]);

// TeX and groff have fonts for the Latin alphabet.
const tex = (encoding, langs, n) => `\\documentclass{article}
${encoding}
\\begin{document}
${pagesOf(langs).map((page) => page.map((l) => sentences(l, n).join("\n").replaceAll("%", "\\%")).join("\n\n")).join("\n\\newpage\n")}
\\end{document}
`;
write("pdftex-ot1.tex", tex("", ["en", "tr"], begin("pdftex-ot1.pdf", { langs: ["en", "tr"], place: paged })));
write("pdftex-t1.tex", tex("\\usepackage[T1]{fontenc}", latin, begin("pdftex-t1.pdf", { langs: latin, place: paged })));
write("pdftex-lm.tex", tex("\\usepackage[T1]{fontenc}\\usepackage{lmodern}", latin, begin("pdftex-lm.pdf", { langs: latin, place: paged })));
const roff = (langs, n, begins, paragraph) => `${begins}\n${langs.map((l) => sentences(l, n).join("\n")).join(`\n${paragraph}\n`)}\n`;
write("groff-ms.roff", roff(["en", "de", "fr"], begin("groff-ms.pdf", { langs: ["en", "de", "fr"], place: paged }), ".LP", ".LP"));
write("groff-man.roff", roff(["en", "de", "fr"], begin("groff-man.pdf", { langs: ["en", "de", "fr"], place: paged }), ".TH X 1\n.SH NAME", ".PP"));

// docx
{
  const { Document, Packer, Paragraph, Table, TableCell, TableRow, TextRun } = docx;
  const n = begin("docx.docx", { grid: "padded" });
  const children = all.map((l) => new Paragraph({ bidirectional: rtl(l), children: sentences(l, n).map((text) => new TextRun({ text: text + " ", rightToLeft: rtl(l), font: font(l) })) }));
  children.push(new Table({ rows: table.map((_, r) => new TableRow({ tableHeader: r < 2, children: cells(r).map(({ text, cols, down }) =>
    new TableCell({ columnSpan: cols, rowSpan: down, children: [new Paragraph(text)] })) })) }));
  fs.writeFileSync(`${out}/docx.docx`, await Packer.toBuffer(new Document({ sections: [{ children }] })));
}

// pptxgenjs: LibreOffice's impress converts the second and the third.
for (const [to, documents] of [[out, ["pptxgenjs.pptx"]], [sources, ["impress.pptx"]], [sources, ["impress.pdf"]]]) {
  const [name] = documents, pdf = name.endsWith(".pdf");
  const n = begin(name, { place: (i) => (pdf ? `p. ${i + 1}` : `slide ${i + 1}`), grid: pdf ? "" : "padded" });
  const show = new pptxgen();
  for (const page of pagesOf(all)) {
    const slide = show.addSlide();
    page.forEach((l, i) => slide.addText(sentences(l, n).map((text) => ({ text, options: { breakLine: true, rtlMode: rtl(l) } })),
      { x: 0.3, y: 0.2 + 1.7 * i, w: 9.4, h: 1.6, fontSize: 12, fontFace: font(l), lang: l, align: rtl(l) ? "right" : "left" }));
  }
  show.addSlide().addTable(table.map((_, r) => cells(r).map(({ text, cols, down }) => ({ text, options: { colspan: cols, rowspan: down } }))), { x: 0.2, y: 0.3, w: 9.6, fontSize: 8, fontFace: "DejaVu Sans" });
  fs.writeFileSync(`${to}/${name.replace(".pdf", "-pdf.pptx")}`, await show.write({ outputType: "nodebuffer", compression: true }));
}

// exceljs: LibreOffice's calc converts those whose names begin with calc.
const formats = { text: "@", count: "#,##0", share: "0.0%", amount: "#,##0.00", date: "yyyy-mm-dd", hours: "[h]:mm", status: '"Yes";"Yes";"No"' };
function value(kind, text) {
  const [h, m] = text.split(":");
  switch (kind) {
    case "text": return text;
    case "share": return Number((parseFloat(text) / 100).toFixed(6));
    case "date": return new Date(`${text}T00:00:00Z`);
    case "hours": return (60 * h + Number(m)) / 1440;
    case "status": return text === "Yes" ? 1 : 0;
  }
  return Number(text.replaceAll(",", ""));
}
for (const [to, name, documents, date1904] of [[out, "exceljs", ["exceljs.xlsx"]], [out, "exceljs-1904", ["exceljs-1904.xlsx"], true],
  [sources, "calc", ["calc.xlsx"]], [sources, "calc-1904", ["calc-1904.xlsx"], true], [sources, "calc-html", ["calc.html"]], [sources, "calc-csv", ["calc.csv"]]]) {
  const [document] = documents, csv = document.endsWith(".csv"), html = document.endsWith(".html");
  const n = begin(document, { langs: csv ? [] : all, place: csv || html ? undefined : () => "sheet Texts", grid: html ? "padded" : csv ? "csv" : "carried" });
  const book = new ExcelJS.Workbook();
  book.properties.date1904 = Boolean(date1904);
  const sheet = book.addWorksheet("Table");
  table.forEach((_, r) => cells(r).forEach(({ text, c, cols, down }) => {
    const cell = sheet.getCell(r + 1, c + 1);
    cell.value = r < 2 ? text : value(kinds[c], text);
    if (r > 1) cell.numFmt = formats[kinds[c]];
    if (cols > 1 || down > 1) sheet.mergeCells(r + 1, c + 1, r + down, c + cols);
  }));
  const second = book.addWorksheet("Texts");
  for (const l of all) second.addRow([l, ...sentences(l, n)]);
  await book.xlsx.writeFile(`${to}/${name}.xlsx`);
}

// Mail: the first sentence is the subject. Programs read the rest of the text.
function mail(name, langs, options) {
  const n = begin(name, { langs, ...options });
  const [subject, ...lines] = langs.flatMap((l) => sentences(l, n));
  return { subject, text: lines.join("\n") + "\n", n };
}
const order = (first) => [first, ...all.filter((l) => l !== first)];
const send = async (name, langs, options, message) => {
  const { subject, text, n } = mail(name, langs, options);
  const built = await new MailComposer({ from: "Jörg <joerg@example.org>", to: "ann@example.org", date: new Date("2026-01-01T00:00:00Z"), subject, ...message(text, n) }).compile().build();
  fs.writeFileSync(`${out}/${name}`, built);
};
await send("nodemailer.eml", order("ru"), {}, (text) => ({ text, html: `<p>${text}</p>` }));
await send("nodemailer-html.eml", order("ar"), { grid: "padded" }, (text) => ({ html: head("Mail") + text.split("\n").map((l) => `<p>${l}</p>`).join("") + htmlTable() }));
for (const [name, first] of [["python", "ja"], ["mutt", "zh"], ["s-nail", "cs"], ["git", "el"]]) {
  const { subject, text } = mail(`${name}.eml`, order(first), {});
  write(`${name}.subject`, subject);
  write(`${name}.text`, text);
}
fs.writeFileSync(`${out}/expected.tsv`, expected.map((e) => e.join("\t") + "\n").join(""));
