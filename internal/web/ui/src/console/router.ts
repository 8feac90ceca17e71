// Addresses inside the console are the part after "#": they work with any
// server, and the browser's buttons move among them.
import { useEffect, useState } from "preact/hooks";

const read = () => location.hash.replace(/^#\/?/, "");

// usePath returns the current address, without its "#/".
export function usePath(): string {
  const [path, setPath] = useState(read);
  useEffect(() => {
    const listen = () => setPath(read());
    addEventListener("hashchange", listen);
    return () => removeEventListener("hashchange", listen);
  }, []);
  return path;
}

export const go = (path: string): void => void (location.hash = "#/" + path);
