import { useState } from "preact/hooks";
import { Button } from "./basic";

const most = 2000; // characters of a comment

export interface Rating {
  rating: "up" | "down";
  comment: string | null;
}

// Thumbs rates an answer: a click rates it, another one on the same thumb removes the rating, and a rating can have a comment. rate
// reports whether the service accepted it.
export function Thumbs({ was, rate, say = (text) => text }: { was?: Rating; rate: (to: Rating | null) => Promise<boolean>; say?: (text: string) => string }) {
  const [busy, setBusy] = useState(false);
  const [writing, setWriting] = useState(false);
  const [comment, setComment] = useState(was?.comment ?? "");
  const set = async (to: Rating | null) => {
    setBusy(true);
    const done = await rate(to);
    setBusy(false);
    return done;
  };
  const thumb = (rating: Rating["rating"], label: string) => (
    <Button small kind="quiet" icon={rating} label={say(label)} pressed={was?.rating === rating} disabled={busy} onClick={() => void set(was?.rating === rating ? null : { rating, comment: was?.comment ?? null }).then((done) => done && was?.rating === rating && setWriting(false))} />
  );
  return (
    <>
      {thumb("up", "Good answer")}
      {thumb("down", "Bad answer")}
      {was && !writing && (
        <Button small kind="quiet" disabled={busy} onClick={() => setWriting(true)}>
          {say(was.comment ? "Change the comment" : "Say why")}
        </Button>
      )}
      {was && writing && (
        <form
          class="rating"
          onSubmit={(e) => {
            e.preventDefault();
            void set({ rating: was.rating, comment: comment.trim() || null }).then((done) => done && setWriting(false));
          }}
        >
          <textarea class="input" rows={2} maxLength={most} aria-label={say("Your comment")} placeholder={say("Your comment")} value={comment} ref={(e) => void (e && document.activeElement?.closest(".rating") !== e.parentElement && e.focus())} onInput={(e) => setComment(e.currentTarget.value)} onKeyDown={(e) => e.key === "Escape" && (e.preventDefault(), setWriting(false))} />
          <Button small type="submit" disabled={busy}>
            {say("Send")}
          </Button>
        </form>
      )}
    </>
  );
}
