// The address of a connection and the source of its tools: the fields that depend on
// its kind.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Kind } from "../../lib/connections";
import type { Connection, ConnectionOperation, UpdateConnection } from "../../lib/contract";
import { Button } from "./basic";
import { AreaField, TextField } from "./fields";

const example = `[
  {
    "name": "get_order",
    "description": "Finds an order by its number.",
    "method": "GET",
    "path": "/orders/{id}",
    "parameters": {
      "type": "object",
      "properties": { "id": { "type": "string", "in": "path" } },
      "required": ["id"]
    }
  }
]`;

// listIn parses a JSON list; undefined if the text is not a list.
function listIn(text: string): ConnectionOperation[] | undefined {
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) && list.length > 0 ? (list as ConnectionOperation[]) : undefined;
  } catch {
    return undefined;
  }
}

export interface ConnectionFields {
  fields: ComponentChildren;
  ready: boolean;
  body: Pick<UpdateConnection, "url" | "documentUrl" | "document" | "operations" | "filter">; // the changed fields
}

const parts = (text: string, between: RegExp | string): string[] => text.split(between).map((p) => p.trim()).filter(Boolean);

// useConnectionFields holds the fields of a kind, filled in from an existing
// connection.
export function useConnectionFields(kind: Kind, was?: Connection): ConnectionFields {
  const [url, setURL] = useState(was?.url ?? "");
  const [documentUrl, setDocumentURL] = useState(was?.documentUrl ?? "");
  const [document, setDocument] = useState("");
  const described = was?.operations ? JSON.stringify(was.operations, null, 2) : "";
  const [operations, setOperations] = useState(described);
  const [asText, setAsText] = useState(!!was && !was.documentUrl);
  const selects = { tags: was?.filter?.tags?.join(", ") ?? "", paths: was?.filter?.paths?.join(" ") ?? "", search: was?.filter?.search ?? "" };
  const [only, setOnly] = useState(selects);
  const list = listIn(operations);
  const body: ConnectionFields["body"] = {};
  if (url.trim() && url.trim() !== was?.url) body.url = url.trim();
  if (kind === "openapi" && asText && document) body.document = document;
  if (kind === "openapi" && !asText && documentUrl.trim() && documentUrl.trim() !== was?.documentUrl) body.documentUrl = documentUrl.trim();
  if (kind === "openapi" && (only.tags !== selects.tags || only.paths !== selects.paths || only.search !== selects.search)) {
    const [tags, paths, search] = [parts(only.tags, ","), parts(only.paths, /\s+/), only.search.trim()];
    body.filter = tags.length || paths.length || search ? { ...(tags.length && { tags }), ...(paths.length && { paths }), ...(search && { search }) } : null;
  }
  if (kind === "http" && list && operations !== described) body.operations = list;
  const ready = kind === "openapi" ? !!was || !!(asText ? document : documentUrl.trim()) : !!url.trim() && (kind === "mcp" || !!list);
  const fields = (
    <>
      {kind === "openapi" && (
        <>
          {asText ? (
            <AreaField id="connection-document" label="Document" hint={was ? "Empty: the one that is there stays." : "OpenAPI 3.0 or 3.1, JSON or YAML."} code rows={6} spellcheck={false} value={document} onChange={setDocument} />
          ) : (
            <TextField id="connection-document-url" label="Address of the document" hint="OpenAPI 3.0 or 3.1, JSON or YAML. It is read again at each refresh." type="url" maxLength={2048} value={documentUrl} onChange={setDocumentURL} autofocus />
          )}
          <div>
            <Button small kind="quiet" onClick={() => setAsText(!asText)}>
              {asText ? "Enter its address" : "Paste the document"}
            </Button>
          </div>
        </>
      )}
      {kind === "openapi" && (
        <fieldset class="plainset stack">
          <legend>Only some operations</legend>
          <div class="thirds">
            <TextField id="connection-tags" label="Tags" hint="Separated by commas." maxLength={2000} value={only.tags} onChange={(tags) => setOnly({ ...only, tags })} />
            <TextField id="connection-paths" label="Paths" hint="Their beginnings." maxLength={2000} value={only.paths} onChange={(paths) => setOnly({ ...only, paths })} />
            <TextField id="connection-search" label="Words" hint="All of them occur." maxLength={500} value={only.search} onChange={(search) => setOnly({ ...only, search })} />
          </div>
          <p class="small muted">A connection has at most 500. Empty: all of the document.</p>
        </fieldset>
      )}
      <TextField id="connection-url" label="Address" hint={kind === "mcp" ? "Of the server, such as https://mcp.example.com/mcp." : kind === "http" ? "The base URL of the requests, such as https://api.example.com/v1." : "The base URL of the requests. Leave empty for the first server of the document."} type="url" maxLength={2048} value={url} onChange={setURL} />
      {kind === "http" && (
        <>
          <AreaField id="connection-operations" label="Requests" hint="A JSON list with one tool per entry." problem={operations && !list ? "Not a JSON array." : undefined} code rows={operations ? 12 : 3} spellcheck={false} value={operations} onChange={setOperations} />
          {!operations && (
            <div>
              <Button small kind="quiet" onClick={() => setOperations(example)}>
                Fill in an example
              </Button>
            </div>
          )}
        </>
      )}
    </>
  );
  return { fields, ready, body };
}
