// The texts of the chat page in the language from the address.
import { pick, words } from "./words";

export const language = pick(new URLSearchParams(location.search).get("lang"));

export const say = words(language);

const time = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" });
const date = new Intl.DateTimeFormat(language, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

// clock formats a time, without the date if it is today.
export function clock(iso: string): string {
  const at = new Date(iso);
  return (at.toDateString() === new Date().toDateString() ? time : date).format(at);
}
