import { useState } from "preact/hooks";
import { initial } from "../../lib/accent";

// Face is the logo of a chat, or the first letter of its title.
export function Face({ title, logo }: { title: string; logo?: string | null }) {
  const [broken, setBroken] = useState("");
  return (
    <span class="face" aria-hidden="true">
      {logo && logo !== broken ? <img src={logo} alt="" onError={() => setBroken(logo)} /> : initial(title)}
    </span>
  );
}
