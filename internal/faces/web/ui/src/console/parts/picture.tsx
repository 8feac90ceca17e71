// A picture of a drive. It is drawn, and nothing in it runs.
import { useEffect, useState } from "preact/hooks";

// pictures contains the types that a browser draws and never executes, which excludes
// SVG.
export const pictures = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"];

export function Picture({ of, name }: { of: Blob; name: string }) {
  const [address, setAddress] = useState<string>();
  useEffect(() => {
    const made = URL.createObjectURL(of);
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [of]);
  return address ? <img class="picture" src={address} alt={name} /> : null;
}
