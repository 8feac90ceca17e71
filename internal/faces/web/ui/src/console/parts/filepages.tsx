// The pages of a PDF as pictures, with their text beside.
import { useEffect, useRef, useState } from "preact/hooks";
import type { DriveFile } from "../../lib/agents";
import { count } from "../../lib/format";
import { Failure, useLoad } from "./load";
import { Picture } from "./picture";
import { useSession } from "./session";

const mostPages = 1000; // whose text is read

// A Cited passage is shown first, and marked.
export interface Cited {
  page: number;
  from: string;
  to: string;
}

export function FilePages({ root, of, cited }: { root: string; of: DriveFile; cited?: Cited }) {
  const { api } = useSession();
  const text = useLoad(async (signal) => (of.text ? (await api.raw("GET", root + "/files/text", { query: { path: of.path }, signal })).text() : ""), [api, root, of.path, of.updatedAt, of.text]);
  const texts = new Map((text.data ?? "").split(/^(?=\[page \d+\]$)/m).map((t) => [Number(/^\[page (\d+)\]/.exec(t)?.[1]), t.replace(/^.*\n?/, "")]));
  return (
    <div class="pdfpages" role="region" aria-label={"Pages of " + of.path}>
      {Array.from({ length: Math.min(of.pages ?? 0, mostPages) }, (_, i) => (
        <Page key={i} root={root} of={of} page={i + 1} text={texts.get(i + 1) ?? ""} cited={cited?.page === i + 1 ? cited : undefined} />
      ))}
      {(of.pages ?? 0) > mostPages && <p class="small muted">The first {count(mostPages)} pages are shown.</p>}
      {text.problem && <Failure problem={text.problem} retry={text.reload} />}
    </div>
  );
}

// Page is drawn when it is near the window, and no longer requested when it leaves before.
function Page({ root, of, page, text, cited }: { root: string; of: DriveFile; page: number; text: string; cited?: Cited }) {
  const { api } = useSession();
  const at = useRef<HTMLElement>(null);
  const [near, setNear] = useState(false);
  const drawn = useRef<Blob | undefined>(undefined);
  const image = useLoad(
    async (signal) => {
      if (!near || drawn.current) return drawn.current;
      const query = { path: of.path, page, width: 1000, fromLine: cited?.from, toLine: cited?.to };
      return (drawn.current = new Blob([await (await api.raw("GET", root + "/files/page", { query, signal })).blob()], { type: "image/png" }));
    },
    [api, root, of.path, of.updatedAt, page, near],
  );
  useEffect(() => {
    const watch = new IntersectionObserver(([entry]) => setNear(entry!.isIntersecting), { rootMargin: "200px" });
    watch.observe(at.current!);
    if (cited) at.current!.scrollIntoView({ block: "start" });
    return () => watch.disconnect();
  }, []);
  return (
    <section class="pdfpage" ref={at} aria-label={`Page ${page}`}>
      <h3 class="small muted">Page {page}{cited && ", cited"}</h3>
      <div class="paper">
        {image.data ? <Picture of={image.data} name={`Page ${page} of ${of.path}`} /> : image.problem ? <Failure problem={image.problem} retry={image.reload} /> : <div class="blank" />}
      </div>
      <pre class="small breaks">{text.trim() || "No text on this page."}</pre>
    </section>
  );
}
