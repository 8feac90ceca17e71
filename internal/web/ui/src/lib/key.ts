// Where the console keeps its key; the explorer uses the same.

export const keyName = "stoa.key";

// keptKey returns the key of this tab, else that of this browser.
export function keptKey(): string | null {
  try {
    return sessionStorage.getItem(keyName) ?? localStorage.getItem(keyName);
  } catch {
    return null;
  }
}
