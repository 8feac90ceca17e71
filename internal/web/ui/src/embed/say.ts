// The words of the chat page in its language, which the address names.
import { pick, words } from "./words";

export const language = pick(new URLSearchParams(location.search).get("lang"));

export const say = words(language);

const time = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" });
const date = new Intl.DateTimeFormat(language, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

// clock is a time as a reader of today needs it.
export function clock(iso: string): string {
  const at = new Date(iso);
  return (at.toDateString() === new Date().toDateString() ? time : date).format(at);
}
