// copyText copies a text to the clipboard and reports whether it succeeded. Pages
// without TLS on other machines cannot use the clipboard API; there a selection and the
// old command still work.
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    try {
      return document.execCommand("copy");
    } finally {
      area.remove();
    }
  }
}
