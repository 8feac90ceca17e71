// The table of pages. A page is listed if the contract has its operation and the key or
// the role has its scope.
import type { ComponentType } from "preact";
import type { IconName } from "./parts/icon";
import { Accounts } from "./pages/accounts";
import { Agents } from "./pages/agents";
import { ToolCalls } from "./pages/calls";
import { Audit } from "./pages/audit";
import { Budgets } from "./pages/budgets";
import { Connections } from "./pages/connections";
import { Credits } from "./pages/credits";
import { Invoices } from "./pages/invoices";
import { Keys } from "./pages/keys";
import { Members } from "./pages/members";
import { Nodes } from "./pages/nodes";
import { Overview } from "./pages/overview";
import { Playground } from "./pages/playground";
import { ProvidersPage } from "./pages/providers";
import { Requests } from "./pages/requests";
import { AllSessions } from "./pages/sessions";
import { Usage } from "./pages/usage";
import { Webhooks } from "./pages/webhooks";

export interface Page {
  path: string; // after "#/"; the rest belongs to the page
  title: string;
  icon: IconName;
  needs: string; // an operation of the contract
  scope?: string; // without it the page is not in the list, and shows only a notice
  what?: string; // if a key without the scope is not enough
  show: ComponentType<{ rest: string }>;
}

export const pages: Page[] = [
  { path: "", title: "Overview", icon: "overview", needs: "getMe", show: Overview },
  { path: "playground", title: "Playground", icon: "playground", needs: "createResponse", scope: "responses", what: "call models", show: Playground },
  { path: "agents", title: "Agents", icon: "agents", needs: "listAgents", scope: "agents:read", what: "see agents", show: Agents },
  { path: "sessions", title: "Sessions", icon: "sessions", needs: "listAllSessions", scope: "sessions:read", what: "see sessions", show: AllSessions },
  { path: "tool-calls", title: "Tool calls", icon: "play", needs: "listToolCalls", scope: "sessions:read", what: "see tool calls", show: ToolCalls },
  { path: "connections", title: "Connections", icon: "connections", needs: "listConnections", scope: "connections:read", what: "see connections", show: Connections },
  { path: "webhooks", title: "Webhooks", icon: "webhooks", needs: "listWebhooks", scope: "webhooks:read", what: "see webhooks", show: Webhooks },
  { path: "usage", title: "Usage", icon: "usage", needs: "getUsage", scope: "usage:read", what: "read what was used", show: Usage },
  { path: "credits", title: "Credits", icon: "credits", needs: "listReceipts", scope: "usage:read", what: "read the books", show: Credits },
  { path: "invoices", title: "Invoices", icon: "file", needs: "getStatements", scope: "usage:read", what: "read the statements", show: Invoices },
  { path: "requests", title: "Requests", icon: "requests", needs: "listRequests", scope: "usage:read", what: "read the request log", show: Requests },
  { path: "audit", title: "Audit", icon: "wait", needs: "listAudit", scope: "account:read", what: "read the changes of the account", show: Audit },
  { path: "budgets", title: "Budgets", icon: "credits", needs: "listBudgets", scope: "account:read", what: "read the budgets", show: Budgets },
  { path: "keys", title: "Keys", icon: "keys", needs: "listKeys", scope: "keys:write", what: "look after keys", show: Keys },
  { path: "members", title: "Members", icon: "members", needs: "listMembers", scope: "account:read", what: "read the members", show: Members },
  { path: "accounts", title: "Accounts", icon: "accounts", needs: "listAccounts", scope: "operator:read", what: "run the service", show: Accounts },
  { path: "providers", title: "Providers", icon: "providers", needs: "listProviders", scope: "operator:read", what: "run the service", show: ProvidersPage },
  { path: "nodes", title: "Nodes", icon: "nodes", needs: "listNodes", scope: "operator:read", what: "run the service", show: Nodes },
];
