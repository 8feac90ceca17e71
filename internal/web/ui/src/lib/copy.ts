// copyText puts a text on the clipboard and reports whether that was possible.
// The clipboard is closed to pages without TLS that are not on this machine;
// there a selection and the old command still work.
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
