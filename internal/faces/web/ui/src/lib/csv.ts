// CSV for spreadsheets.

// csv joins rows, the first of which are the names. A text that a spreadsheet could
// treat as a formula gets an apostrophe as its prefix, as in the API's own CSV.
export function csv(rows: (string | number | boolean | null | undefined)[][]): string {
  const cell = (value: string | number | boolean | null | undefined): string => {
    let text = value == null ? "" : String(value);
    if (typeof value === "string" && (/^[\s\p{Cc}\p{Cf}]*[=+\-@]/u.test(text.normalize("NFKC")) || /^\p{Cc}/u.test(text))) text = "'" + text;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
}
