// The texts of the chat page in the language from the address.
import { pick, words } from "./words";

export const language = pick(new URLSearchParams(location.search).get("lang"));

export const say = words(language);

// Times are in the form of the visitor's region, such as en-GB, if it has the language of the page.
const region = navigator.languages.find((l) => l.split("-")[0] === language) ?? language;
const time = new Intl.DateTimeFormat(region, { hour: "2-digit", minute: "2-digit" });
const date = new Intl.DateTimeFormat(region, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

// clock formats a time, without the date if it is today.
export function clock(iso: string): string {
  const at = new Date(iso);
  return (at.toDateString() === new Date().toDateString() ? time : date).format(at);
}
