// The storage of the console's key; the explorer uses the same.

export const keyName = "stoa.key";

// keptKey returns the key of this tab, else the key of this browser.
export function keptKey(): string | null {
  try {
    return sessionStorage.getItem(keyName) ?? localStorage.getItem(keyName);
  } catch {
    return null;
  }
}
