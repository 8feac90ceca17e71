// The page of one object, such as an agent: it is loaded with its entity tag, belongs
// to a list, and may have been deleted.
import type { ComponentChildren } from "preact";
import { useSession } from "./session";
import { type Loaded, useLoad } from "./load";

export interface Tagged<T> {
  data: T;
  etag: string;
}

// useSubject loads the object at a path of the API.
export function useSubject<T>(path: string): Loaded<Tagged<T>> {
  const { api } = useSession();
  return useLoad((signal) => api.read<T>(path, signal), [api, path]);
}

// Lost replaces a page that does not exist.
export function Lost({ what, why, to, back }: { what: string; why: string; to: string; back: string }) {
  return (
    <div class="lost">
      <h1>There is no such {what}</h1>
      <p>
        {why} <a href={"#/" + to}>Go to the {back}.</a>
      </p>
    </div>
  );
}

// Subject shows the head of the page, or a notice if the object does not exist. list is
// the path of the list and its name in lower case.
export function Subject<T extends { id: string }>(props: { of: Loaded<Tagged<T>>; what: string; list: string; title?: string; state?: ComponentChildren; aside?: ComponentChildren; children: ComponentChildren }) {
  const { what, list } = props;
  const { may, offers } = useSession();
  const id = props.of.data?.data.id;
  if (props.of.problem?.status === 404) return <Lost what={what} why="It was deleted, or belongs to another account." to={list} back={list} />;
  const capital = (word: string) => word[0]!.toUpperCase() + word.slice(1);
  return (
    <>
      <header class="head">
        <div>
          <p class="small muted">
            <a href={"#/" + list}>{capital(list)}</a>
            {id && may("account:read") && offers("listAudit") && (
              <a class="changes" href={"#/audit?object=" + id}>
                Change log
              </a>
            )}
          </p>
          <div class="row">
            <h1 class="breaks">{props.title ?? capital(what)}</h1>
            {props.state}
          </div>
        </div>
        {props.aside}
      </header>
      {props.children}
    </>
  );
}
