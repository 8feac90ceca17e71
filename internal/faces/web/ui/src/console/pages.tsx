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
import { Keys } from "./pages/keys";
import { Members } from "./pages/members";
import { Nodes } from "./pages/nodes";
import { Overview } from "./pages/overview";
import { Playground } from "./pages/playground";
import { ProvidersPage } from "./pages/providers";
import { Requests } from "./pages/requests";
import { Feedback } from "./pages/feedback";
import { AllSessions } from "./pages/sessions";
import { Statements } from "./pages/statements";
import { Usage } from "./pages/usage";
import { Webhooks } from "./pages/webhooks";

export interface Page {
  path: string; // after "#/"; the rest belongs to the page
  title: string;
  icon: IconName;
  group: "" | "Build" | "Observe" | "Account" | "Operate"; // of the navigation
  needs: string; // an operation of the contract
  scope?: string; // without it the page is not in the list, and shows only a notice
  what?: string; // if a key without the scope is not enough
  show: ComponentType<{ rest: string }>;
}

export const pages: Page[] = [
  { path: "", title: "Overview", icon: "overview", group: "", needs: "getMe", show: Overview },
  { path: "playground", title: "Playground", icon: "playground", group: "Build", needs: "createResponse", scope: "responses", what: "call models", show: Playground },
  { path: "agents", title: "Agents", icon: "agents", group: "Build", needs: "listAgents", scope: "agents:read", what: "see agents", show: Agents },
  { path: "sessions", title: "Sessions", icon: "sessions", group: "Build", needs: "listAllSessions", scope: "sessions:read", what: "see sessions", show: AllSessions },
  { path: "connections", title: "Connections", icon: "connections", group: "Build", needs: "listConnections", scope: "connections:read", what: "see connections", show: Connections },
  { path: "usage", title: "Usage", icon: "usage", group: "Observe", needs: "getUsage", scope: "usage:read", what: "see usage", show: Usage },
  { path: "requests", title: "Requests", icon: "requests", group: "Observe", needs: "listRequests", scope: "usage:read", what: "read the request log", show: Requests },
  { path: "feedback", title: "Feedback", icon: "up", group: "Observe", needs: "listFeedback", scope: "sessions:read", what: "see feedback", show: Feedback },
  { path: "tool-calls", title: "Tool calls", icon: "approve", group: "Observe", needs: "listToolCalls", scope: "sessions:read", what: "see tool calls", show: ToolCalls },
  { path: "credits", title: "Credits", icon: "credits", group: "Account", needs: "listReceipts", scope: "usage:read", what: "read the books", show: Credits },
  { path: "invoices", title: "Statements", icon: "file", group: "Account", needs: "getStatements", scope: "usage:read", what: "read the statements", show: Statements },
  { path: "budgets", title: "Budgets", icon: "budgets", group: "Account", needs: "listBudgets", scope: "account:read", what: "read the budgets", show: Budgets },
  { path: "keys", title: "Keys", icon: "keys", group: "Account", needs: "listKeys", scope: "keys:write", what: "manage keys", show: Keys },
  { path: "members", title: "Members", icon: "members", group: "Account", needs: "listMembers", scope: "account:read", what: "read the members", show: Members },
  { path: "webhooks", title: "Webhooks", icon: "webhooks", group: "Account", needs: "listWebhooks", scope: "webhooks:read", what: "see webhooks", show: Webhooks },
  { path: "audit", title: "Audit", icon: "audit", group: "Account", needs: "listAudit", scope: "account:read", what: "read the changes of the account", show: Audit },
  { path: "accounts", title: "Accounts", icon: "accounts", group: "Operate", needs: "listAccounts", scope: "operator:read", what: "run the service", show: Accounts },
  { path: "providers", title: "Providers", icon: "providers", group: "Operate", needs: "listProviders", scope: "operator:read", what: "run the service", show: ProvidersPage },
  { path: "nodes", title: "Nodes", icon: "nodes", group: "Operate", needs: "listNodes", scope: "operator:read", what: "run the service", show: Nodes },
];
