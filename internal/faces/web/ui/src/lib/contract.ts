// Code generated from internal/base/contract/openapi.yaml by go generate. DO NOT EDIT.
// The types of the API's bodies, for the pages.

export interface Account {
  createdAt: string;
  credits: Credits;
  defaultSpaceId: string | null;
  email: string | null;
  id: string;
  lastUsedAt: string | null;
  name: string;
  plan: string;
  spentByDayMicro?: number[];
  spentLast30DaysMicro: number;
  suspended: boolean;
}

export interface AccountList {
  data: Account[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface AccountWithCredits {
  createdAt: string;
  credits: Credits;
  defaultSpaceId: string | null;
  email: string | null;
  id: string;
  lastUsedAt: string | null;
  name: string;
  plan: string;
  spentLast30DaysMicro: number;
  suspended: boolean;
}

export interface AccountWithKey {
  createdAt: string;
  credits: Credits;
  defaultSpaceId: string | null;
  email: string | null;
  id: string;
  key: KeyWithSecret;
  name: string;
  plan: string;
  suspended: boolean;
}

export interface AddAttachment {
  content?: string | null;
  encoding?: "utf8" | "base64" | null;
  name?: string | null;
  uploadId?: string | null;
}

export interface AddUpload {
  uploadId: string;
}

export interface Agent {
  compactAt: number | null;
  createdAt: string;
  description: string | null;
  driveAccess: "read_only" | "read_write";
  embedEnabled: boolean;
  expose: ("responses" | "mcp" | "agui" | "skills")[];
  externalId: string | null;
  id: string;
  instructions: string;
  lastSessionAt?: string;
  limits: TurnLimits;
  memory: "none" | "user";
  metadata: Metadata;
  model: string;
  name: string;
  reasoning: AgentReasoning;
  replySchema: ReplySchema;
  skills: AgentSkill[];
  spaceId: string;
  spaceName?: string;
  tables: boolean;
  temperature: number | null;
  timezone: string;
  toolSearch: boolean;
  tools: AgentTool[];
  updatedAt: string;
  version: number;
  visitorDrive: "none" | "read" | "write";
}

export type AgentDraft = {
  driveAccess?: "read_only" | "read_write" | null;
  instructions?: string;
  limits?: SetTurnLimits;
  model?: string | null;
  reasoning?: AgentReasoning;
  replySchema?: ReplySchema;
  temperature?: number | null;
  toolSearch?: boolean | null;
  tools?: SetAgentTool[] | null;
} | null;

export interface AgentList {
  data: Agent[];
  hasMore: boolean;
  nextCursor: string | null;
}

export type AgentReasoning = {
  effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max" | null;
} | null;

export interface AgentSkill {
  description: string;
  files: AgentSkillFile[];
  name: string;
  source: string | null;
}

export interface AgentSkillFile {
  digest: string;
  path: string;
  size: number;
}

export interface AgentTool {
  allow?: string[];
  approval?: "always" | "never";
  connectionId?: string;
  description?: string;
  effects?: "read" | "idempotent" | "once";
  name?: string;
  onTimeout?: "tell_model" | "fail";
  parameters?: ToolParameters;
  stricter?: StricterTool[];
  timeoutSeconds?: number;
  type: "client" | "connection" | "drive";
  visitors?: "no" | "yes";
}

export interface AgentToolCall {
  agentId: string;
  agentName?: string;
  approval: ToolCallApproval | null;
  approvalInputId: string | null;
  arguments: ToolArgumentsValue;
  attempts: number;
  confirmation?: ToolCallConfirmation;
  connectionId?: string | null;
  createdAt: string;
  definitionSha256: string;
  durationMs: number | null;
  effects: "read" | "idempotent" | "once";
  errorCode: string | null;
  expiresAt: string | null;
  finishedAt: string | null;
  id: string;
  inputId: string | null;
  isError: boolean;
  lateOutput: string | null;
  needsApproval: boolean;
  needsConfirmation?: boolean;
  object: "tool_call";
  outcome: "ok" | "error" | "denied" | "unknown" | "expired" | "cancelled" | null;
  place: number;
  previousOutcome: "unknown" | null;
  resolution: ToolCallResolution | null;
  resultBytes: number;
  resultText: string | null;
  secretId?: string | null;
  sessionId: string;
  startedAt: string | null;
  status: "planned" | "waiting" | "started" | "done";
  step: number;
  title: string | null;
  tool: string;
  turn: number;
  type: "client" | "connection" | "drive";
}

export interface AgentVersion {
  agentId: string;
  compactAt: number | null;
  createdAt: string;
  driveAccess: "read_only" | "read_write";
  instructions: string;
  limits: TurnLimits;
  memory: "none" | "user";
  model: string;
  reasoning: AgentReasoning;
  replySchema: ReplySchema;
  skills: AgentSkill[];
  tables: boolean;
  temperature: number | null;
  timezone: string;
  toolSearch: boolean;
  tools: AgentTool[];
  version: number;
  visitorDrive: "none" | "read" | "write";
}

export interface AgentVersionList {
  data: AgentVersion[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface AnswerInput {
  answer?: string | null;
  choice?: string | null;
  decision?: "approve" | "reject" | null;
  decisions?: ToolDecision[] | null;
  inputId: string;
  outputs?: ToolOutput[] | null;
}

export interface ApplyConfig {
  note?: string | null;
}

export interface Attachment {
  id: string;
  mimeType: string;
  name: string;
  sha256: string;
  size: number;
}

export interface AuditAction {
  action: string;
}

export interface AuditActionList {
  data: AuditAction[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface AuditEntry {
  accountId: string;
  accountName?: string;
  action: string;
  actor: string;
  actorName?: string;
  address: string | null;
  after: string | null;
  at: string;
  before: string | null;
  hash: string;
  object: string;
  prev: string | null;
  requestId: string | null;
  seq: number;
}

export interface AuditList {
  data: AuditEntry[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface AuthorizationStart {
  authorizeUrl: string;
  expiresAt: string;
  id: string;
  issuer?: string;
  signInOrigin?: string;
  tokenOrigin?: string;
}

export interface Budget {
  atCap: "shorten" | "refuse";
  createdAt: string;
  effectiveAt: string;
  heldMicro: number | null;
  id: string;
  limitMicro: number;
  notifyAt: number[];
  openingMicro: number | null;
  period: "day" | "week" | "month" | "total";
  resetsAt: string | null;
  scope: "account" | "member" | "key" | "agent" | "embed" | "end_user";
  setByOperator: boolean;
  spentMicro: number | null;
  startsAt: string | null;
  subject: string | null;
  subjectName?: string;
  timeZone: string;
  updatedAt: string;
}

export interface BudgetList {
  data: Budget[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface BudgetWindow {
  heldMicro: number;
  limitMicro: number;
  openingMicro: number;
  resetsAt: string | null;
  spentMicro: number;
  startsAt: string | null;
  subject: string | null;
  subjectName?: string;
}

export interface BudgetWindowList {
  data: BudgetWindow[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface ChatChoice {
  finish_reason: "stop" | "length" | "content_filter" | "tool_calls";
  index: 0;
  logprobs: null;
  message: {
    content: string | null;
    reasoning_details?: ChatReasoningDetail[];
    refusal: string | null;
    role: "assistant";
    tool_calls?: ChatToolCall[];
  };
}

export interface ChatCompletion {
  choices: ChatChoice[];
  created: number;
  id: string;
  model: string;
  object: "chat.completion";
  service_tier: "default";
  usage: ChatUsage;
}

export interface ChatCompletionChunk {
  choices: ({
    delta: {
      content?: string;
      reasoning_details?: ChatReasoningDetail[];
      refusal?: string;
      role?: "assistant";
      tool_calls?: ({
        custom?: {
          input: string;
          name?: string;
        };
        extra_content?: ChatExtraContent;
        function?: {
          arguments: string;
          name?: string;
        };
        id?: string;
        index: number;
        type?: "function" | "custom";
      })[];
    };
    finish_reason: "stop" | "length" | "content_filter" | "tool_calls" | null;
    index: 0;
    logprobs: null;
  })[];
  created: number;
  id: string;
  model: string;
  object: "chat.completion.chunk";
  usage?: ChatUsage;
}

export interface ChatCustomTool {
  custom: {
    description?: string | null;
    format?: Record<string, unknown> | null;
    name: string;
  };
  type: "custom";
}

export interface ChatExtraContent {
  google: {
    thought_signature: string;
  };
}

export interface ChatInputMessage {
  content?: unknown;
  reasoning_details?: unknown;
  role: "system" | "developer" | "user" | "assistant" | "tool";
  tool_call_id?: unknown;
  tool_calls?: unknown;
}

export interface ChatReasoningDetail {
  data: string;
  format: "stoa";
  id?: string;
  index: number;
  type: "reasoning.encrypted";
}

export interface ChatTool {
  function: {
    description?: string | null;
    name: string;
    parameters?: Record<string, unknown> | null;
    strict?: boolean | null;
  };
  type: "function";
}

export interface ChatToolCall {
  custom?: {
    input: string;
    name: string;
  };
  extra_content?: ChatExtraContent;
  function?: {
    arguments: string;
    name: string;
  };
  id: string;
  type: "function" | "custom";
}

export interface ChatUsage {
  completion_tokens: number;
  completion_tokens_details: {
    reasoning_tokens: number;
  };
  prompt_tokens: number;
  prompt_tokens_details: {
    cache_write_tokens?: number;
    cached_tokens: number;
  };
  total_tokens: number;
}

export interface ClaimInput {
  claimId?: string | null;
  leaseSeconds: number;
}

export interface CompactedMessage {
  content: {
    text: string;
    type: "input_text";
  }[];
  id: string;
  role: "user";
  status: "completed";
  type: "message";
}

export interface CompactedResponse {
  created_at: number;
  id: string;
  object: "response.compaction";
  output: (CompactedMessage | Compaction)[];
  usage: {
    input_tokens: number;
    input_tokens_details: {
      cache_write_tokens: number;
      cached_tokens: number;
    };
    output_tokens: number;
    output_tokens_details: {
      reasoning_tokens: number;
    };
    total_tokens: number;
  };
}

export interface Compaction {
  encrypted_content: string;
  id: string;
  type: "compaction";
}

export interface Config {
  data: ConfigItem[];
  latestVersion: number;
  problem: string | null;
  version: number;
}

export interface ConfigChange {
  after: ConfigValue;
  before: ConfigValue;
  path: string;
}

export interface ConfigCheck {
  baseVersion: number;
  changes: ConfigChange[];
  effects: ConfigEffect[];
  ok: boolean;
  prices: PriceChange[];
  problems: ConfigProblem[];
  warnings: string[];
}

export interface ConfigDraft {
  author: string | null;
  baseVersion: number;
  exists: boolean;
  settings: ManagedSettings;
  updatedAt: string | null;
}

export interface ConfigEffect {
  agents: number;
  confirm: boolean;
  kind: string;
  models: string[];
  text: string;
}

export interface ConfigItem {
  kind: "provider" | "family" | "model" | "auto" | "alias" | "plan";
  name: string;
  shadowed: boolean;
  source: "file" | "environment" | "managed" | "shipped";
  value: Record<string, unknown>;
  where: string | null;
}

export type ConfigPrice = {
  above?: LongInput;
  cacheWrite: number;
  cacheWriteLong: number;
  cachedInput: number;
  hours?: PriceHours[];
  input: number;
  output: number;
} | null;

export interface ConfigProblem {
  message: string;
  path: string;
  where: string | null;
}

export type ConfigValue = Record<string, unknown> | null;

export interface ConfigVersion {
  author: string;
  authorName?: string;
  changes: string[];
  createdAt: string;
  id: string;
  note: string | null;
  version: number;
}

export interface ConfigVersionDetail {
  author: string;
  changes: string[];
  createdAt: string;
  id: string;
  note: string | null;
  settings: ManagedSettings;
  version: number;
}

export interface ConfigVersionList {
  data: ConfigVersion[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface Connection {
  auth: ConnectionAuth;
  createdAt: string;
  credentialsPerSession: "off" | "optional" | "required";
  documentUrl: string | null;
  enabled: boolean;
  filter: ConnectionFilter;
  headers: Record<string, string>;
  id: string;
  instructions: string | null;
  kind: "mcp" | "http" | "openapi";
  lastAuthorization: ConnectionAuthorization;
  lastCheckedAt: string | null;
  lastError: ConnectionError;
  limits: ConnectionLimits;
  metadata: Metadata;
  name: string;
  onChange: "block" | "keep";
  operations: ConnectionOperation[] | null;
  protocol: ConnectionProtocol;
  sessions: "turn" | "session";
  spaceId: string;
  spaceName?: string;
  status: "unchecked" | "ready" | "review_needed" | "needs_authorization" | "unreachable" | "disabled";
  toolCounts: ConnectionToolCounts;
  updatedAt: string;
  url: string;
}

export interface ConnectionAuth {
  clientId?: string | null;
  clientSecretId?: string | null;
  grant?: "authorization_code" | "client_credentials" | null;
  scopes?: string[] | null;
  secretId?: string | null;
  type: "none" | "secret" | "oauth";
}

export type ConnectionAuthorization = {
  endedAt: string | null;
  id: string;
  message: string | null;
  startedAt: string;
  status: "pending" | "authorized" | "cancelled" | "failed";
} | null;

export type ConnectionError = {
  code: string;
  message: string;
} | null;

export type ConnectionFilter = {
  paths?: string[];
  search?: string;
  tags?: string[];
} | null;

export interface ConnectionLimits {
  callsPerMinute: number;
  maxConcurrent: number;
  maxResultBytes: number;
  timeoutSeconds: number;
}

export interface ConnectionList {
  data: Connection[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface ConnectionOperation {
  description?: string | null;
  effects?: "read" | "idempotent" | "once" | null;
  method: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  name: string;
  parameters?: Record<string, unknown> | null;
  path: string;
  result?: ConnectionOperationResult;
}

export type ConnectionOperationResult = {
  maxItems?: number | null;
  pointer?: string | null;
} | null;

export type ConnectionProtocol = {
  era: "modern" | "legacy";
  serverName: string;
  serverVersion: string;
  version: string;
} | null;

export interface ConnectionTool {
  annotations: Record<string, unknown> | null;
  approval: "always" | "never" | null;
  approvedSha256: string | null;
  definitionTokens: number;
  description: string;
  effects: "read" | "idempotent" | "once" | null;
  idempotencyArgument: string | null;
  inputSchema: Record<string, unknown>;
  modelName: string;
  name: string;
  onUnknown: "tell_model" | "fail" | null;
  outputSchema: Record<string, unknown> | null;
  previous: ConnectionToolPrevious;
  publicFields?: string[];
  request: Record<string, unknown> | null;
  sha256: string;
  state: "new" | "approved" | "changed" | "missing" | "rejected" | "invalid";
  suggested: ConnectionToolPolicy;
  timeoutSeconds: number;
  title: string;
  visitorTitle?: string;
  visitors: "no" | "yes" | "confirm";
  warnings: string[];
}

export interface ConnectionToolCounts {
  approved: number;
  changed: number;
  invalid: number;
  missing: number;
  new: number;
  rejected: number;
}

export interface ConnectionToolList {
  data: ConnectionTool[];
}

export interface ConnectionToolPolicy {
  approval: "always" | "never";
  effects: "read" | "idempotent" | "once";
}

export type ConnectionToolPrevious = {
  description: string;
  inputSchema: Record<string, unknown>;
  request: Record<string, unknown> | null;
  title: string;
} | null;

export interface ConnectionToolTest {
  bytes: number;
  callId: string;
  durationMilliseconds: number;
  isError: boolean;
  message: string | null;
  outcome: "ok" | "error" | "not_sent" | "refused" | "unknown";
  text: string | null;
}

export interface Contact {
  email: string | null;
  url: string | null;
}

export interface Content {
  parts: Record<string, unknown>[];
  role?: "user" | "model" | "function" | null;
}

export interface ContentTokens {
  totalTokens: number;
}

export interface CountContentTokens {
  contents?: Content[] | null;
  generateContentRequest?: Record<string, unknown> | null;
}

export interface CountMessageTokens {
  messages: MessageInput[];
  model: string;
}

export interface CreateAccount {
  email?: string | null;
  grantMicro?: number | null;
  name: string;
  plan?: string | null;
}

export interface CreateAgent {
  compactAt?: number | null;
  description?: string | null;
  driveAccess?: "read_only" | "read_write" | null;
  embedEnabled?: boolean | null;
  expose?: ("responses" | "mcp" | "agui" | "skills")[] | null;
  externalId?: string | null;
  instructions: string;
  limits?: SetTurnLimits;
  memory?: "none" | "user" | null;
  metadata?: Record<string, string> | null;
  model?: string | null;
  name: string;
  reasoning?: AgentReasoning;
  replySchema?: ReplySchema;
  spaceId: string;
  tables?: boolean | null;
  temperature?: number | null;
  timezone?: string | null;
  toolSearch?: boolean | null;
  tools?: SetAgentTool[] | null;
  visitorDrive?: "none" | "read" | "write" | null;
}

export interface CreateBudget {
  atCap?: "shorten" | "refuse" | null;
  limitMicro: number;
  notifyAt?: number[] | null;
  period: "day" | "week" | "month" | "total";
  scope: "account" | "member" | "key" | "agent" | "embed" | "end_user";
  subject?: string | null;
  timeZone?: string | null;
}

export interface CreateChatCompletion {
  max_completion_tokens?: number | null;
  max_tokens?: number | null;
  messages: ChatInputMessage[];
  metadata?: Record<string, string> | null;
  model: string;
  parallel_tool_calls?: boolean | null;
  reasoning_effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max" | null;
  response_format?: Record<string, unknown> | null;
  stop?: unknown;
  stream?: boolean | null;
  stream_options?: {
    include_usage?: boolean | null;
  } | null;
  strict_model?: boolean | null;
  temperature?: number | null;
  tool_choice?: unknown;
  tools?: (ChatTool | ChatCustomTool | OtherTool)[] | null;
  top_p?: number | null;
  user?: string | null;
  verbosity?: "low" | "medium" | "high" | null;
}

export interface CreateConnection {
  auth?: ConnectionAuth;
  credentialsPerSession?: "off" | "optional" | "required" | null;
  document?: string | null;
  documentUrl?: string | null;
  filter?: ConnectionFilter;
  headers?: Record<string, string> | null;
  kind: "mcp" | "http" | "openapi";
  limits?: SetConnectionLimits;
  metadata?: Record<string, string> | null;
  name: string;
  onChange?: "block" | "keep" | null;
  operations?: ConnectionOperation[] | null;
  sessions?: "turn" | "session" | null;
  spaceId?: string | null;
  url?: string;
}

export interface CreateEmbed {
  allowedOrigins?: string[] | null;
  attachments?: EmbedAttachments;
  chatExpiresInSeconds?: number | null;
  chatSessionId?: string | null;
  contact?: boolean | null;
  credentials?: Record<string, string> | null;
  expiresInSeconds?: number | null;
  externalUserId?: string | null;
  feedback?: boolean | null;
  greeting?: string | null;
  logo?: string | null;
  maxCreditsMicro?: number | null;
  maxMessageChars?: number | null;
  maxMessages?: number | null;
  messagesPerMinute?: number | null;
  starters?: string[] | null;
  theme?: "auto" | "light" | "dark" | null;
  title?: string | null;
}

export interface CreateEmbedLogo {
  content: string;
}

export interface CreateEmbedTag {
  accentColor?: string | null;
  allowedOrigins?: string[] | null;
  attachments?: EmbedAttachments;
  chatsPerDay?: number | null;
  contact?: boolean | null;
  credentials?: Record<string, string> | null;
  enabled?: boolean | null;
  feedback?: boolean | null;
  greeting?: string | null;
  language?: "auto" | "en" | "de" | "fr" | "es" | null;
  logo?: string | null;
  maxCreditsMicro?: number | null;
  position?: "right" | "left" | null;
  starters?: string[] | null;
  theme?: "auto" | "light" | "dark" | null;
  title?: string | null;
}

export interface CreateEmbedTicket {
  visitorToken?: string | null;
}

export interface CreateGrant {
  amountMicro: number;
  externalRef?: string | null;
  reason?: string | null;
}

export interface CreateHook {
  enabled?: boolean | null;
  eventId?: string | null;
  externalId?: string | null;
  externalUserId?: string | null;
  maxCreditsMicroPerTurn?: number | null;
  message?: string | null;
  mode?: "once" | "chat" | null;
  name: string;
  networks?: string[] | null;
  secret?: string | null;
  signature: HookSignature;
  turnsPerDay?: number | null;
}

export interface CreateKey {
  expiresAt?: string | null;
  maxCreditsMicroPerDay?: number | null;
  models?: string[] | null;
  name: string;
  networks?: string[] | null;
  requestsPerMinute?: number | null;
  requireEndUser?: boolean | null;
  scopes?: ("responses" | "agents:read" | "agents:write" | "sessions:read" | "sessions:write" | "drive:read" | "drive:write" | "schedules:read" | "schedules:write" | "embeds:write" | "approvals:write" | "webhooks:read" | "webhooks:write" | "connections:read" | "connections:write" | "secrets:write" | "keys:write" | "usage:read" | "account:read" | "account:write" | "operator:read" | "operator:billing" | "operator" | "*")[] | null;
}

export interface CreateMessage {
  max_tokens: number;
  messages: MessageInput[];
  metadata?: {
    user_id?: string | null;
  } | null;
  model: string;
  output_config?: Record<string, unknown> | null;
  stop_sequences?: string[] | null;
  stream?: boolean | null;
  strict_model?: boolean | null;
  system?: unknown;
  temperature?: number | null;
  thinking?: Record<string, unknown> | null;
  tool_choice?: Record<string, unknown> | null;
  tools?: (MessageTool | OtherTool)[] | null;
  top_k?: number | null;
  top_p?: number | null;
}

export interface CreatePayment {
  pack: string;
}

export interface CreateResponse {
  background?: boolean | null;
  conversation?: string | {
    id: string;
  } | null;
  frequency_penalty?: number | null;
  include?: string[] | null;
  input: string | InputItem[];
  instructions?: string | null;
  max_output_tokens?: number | null;
  max_tool_calls?: number | null;
  metadata?: Record<string, string> | null;
  model: string;
  parallel_tool_calls?: boolean | null;
  presence_penalty?: number | null;
  previous_response_id?: null;
  prompt?: null;
  prompt_cache_key?: string | null;
  reasoning?: {
    context?: unknown;
    effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max" | null;
    mode?: unknown;
    summary?: "auto" | "concise" | "detailed" | null;
  } | null;
  safety_identifier?: string | null;
  service_tier?: string | null;
  store?: boolean | null;
  stream?: boolean | null;
  stream_options?: Record<string, unknown> | null;
  strict_model?: boolean | null;
  temperature?: number | null;
  text?: {
    format?: {
      description?: string | null;
      name?: string | null;
      schema?: Record<string, unknown> | null;
      strict?: boolean | null;
      type: "text" | "json_object" | "json_schema";
    } | null;
    verbosity?: "low" | "medium" | "high" | null;
  } | null;
  tool_choice?: "auto" | "none" | "required" | ToolChoice | null;
  tools?: (FunctionTool | CustomTool | NamespaceTool | VendorTool | OtherTool)[] | null;
  top_logprobs?: number | null;
  top_p?: number | null;
  truncation?: "auto" | "disabled" | null;
  user?: string | null;
}

export interface CreateScheduledTask {
  catchUpWindowSeconds?: number | null;
  credentials?: Record<string, string> | null;
  enabled?: boolean | null;
  endAt?: string | null;
  maxCreditsMicroPerRun?: number | null;
  maxRuns?: number | null;
  message: string;
  missedRunPolicy?: "run_latest" | "skip" | "run_all" | null;
  mode?: "chat" | "once" | null;
  name: string;
  overlapPolicy?: "skip" | "queue" | "allow" | null;
  pauseAfterFailures?: number | null;
  schedule: Schedule;
  sessionPolicy?: "new" | "reuse" | null;
  startAt?: string | null;
}

export interface CreateSecret {
  expiresAt?: string | null;
  externalUserId?: string | null;
  headerName?: string | null;
  kind: "bearer" | "header" | "basic" | "query" | "token";
  name: string;
  origin: string;
  parameterName?: string | null;
  spaceId?: string | null;
  value: string;
}

export interface CreateSession {
  attachments?: AddAttachment[] | null;
  clientTools?: "offer" | "withhold" | null;
  credentials?: Record<string, string> | null;
  draft?: AgentDraft;
  externalId?: string | null;
  externalUserId?: string | null;
  limits?: SetTurnLimits;
  message: string;
  metadata?: Record<string, string> | null;
  mode?: "chat" | "once" | null;
  replySchema?: ReplySchema;
  title?: string | null;
}

export interface CreateSpace {
  description?: string | null;
  externalId?: string | null;
  metadata?: Record<string, string> | null;
  name: string;
}

export interface CreateTestSet {
  name: string;
  questions: TestQuestion[];
}

export interface CreateWebhook {
  creditsLowMicro?: number | null;
  description?: string | null;
  enabled?: boolean | null;
  events: ("*" | "session.completed" | "session.failed" | "session.cancelled" | "session.waiting_for_input" | "scheduled_task.run_finished" | "scheduled_task.run_skipped" | "scheduled_task.paused" | "credits.low" | "credits.exhausted" | "key.expiring" | "key.pause_soon" | "connection.needs_authorization" | "tool_call.unknown" | "attachment.created" | "message.feedback" | "chat.person_requested" | "audit.anchor" | "audit.recorded" | "budget.threshold" | "webhook.failing" | "webhook.disabled" | "connection.review_needed" | "provider.down" | "provider.up" | "errors.high" | "account.balance_low" | "node.lost" | "config.refused")[];
  scope?: "account" | "service" | null;
  spaceIds?: string[] | null;
  url?: string | null;
}

export interface CreateWithdrawal {
  amountMicro: number;
  externalRef: string;
  reason?: string | null;
}

export interface Credits {
  availableMicro: number;
  grantedMicro: number;
  heldMicro: number;
  owedMicro?: number;
  spentMicro: number;
}

export interface CustomTool {
  description?: string | null;
  format?: TextToolFormat | GrammarToolFormat | null;
  name: string;
  type: "custom";
}

export interface Delivery {
  attemptCount: number;
  attempts: DeliveryAttempt[];
  body: string;
  createdAt: string;
  eventId: string;
  finishedAt: string | null;
  id: string;
  lastError: string | null;
  lastStatus: number | null;
  nextAttemptAt: string | null;
  object: "delivery";
  status: "pending" | "delivered" | "failed" | "held";
  type: string;
  webhookId: string;
}

export interface DeliveryAttempt {
  at: string;
  error: string | null;
  milliseconds: number;
  number: number;
  reply: string | null;
  status: number | null;
}

export interface DeliveryList {
  data: DeliverySummary[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface DeliverySummary {
  attemptCount: number;
  createdAt: string;
  eventId: string;
  finishedAt: string | null;
  id: string;
  lastError: string | null;
  lastStatus: number | null;
  nextAttemptAt: string | null;
  object: "delivery";
  status: "pending" | "delivered" | "failed" | "held";
  type: string;
  webhookId: string;
}

export interface Diagnosis {
  checkedAt: string;
  checks: DiagnosisCheck[];
  status: "ok" | "attention";
}

export interface DiagnosisCheck {
  count: number;
  items: DiagnosisItem[];
  name: string;
  status: "ok" | "attention" | "unknown";
  summary: string;
}

export interface DiagnosisItem {
  accountId: string | null;
  detail: string;
  id: string | null;
  since: string | null;
}

export interface Difference {
  actualMicro: number;
  expectedMicro: number;
  id: string | null;
  what: string;
}

export interface DocsLinks {
  explorer: string;
  openapi: string;
  reference: string;
}

export interface Drive {
  agentId: string;
  bytes: number;
  files: number;
  historyBytes: number;
  historyFiles: number;
  maxBytes: number;
  maxFileBytes: number;
  maxFiles: number;
  revision: number;
  updatedAt: string | null;
}

export interface DriveBatch {
  operations: DriveOperation[];
}

export interface DriveBatchResult {
  results: DriveOutcome[];
  revision: number;
}

export interface DriveDelete {
  ifMatch?: string | null;
  op: "delete";
  path: string;
}

export interface DriveEvent {
  createdAt: string;
  fromLine?: number;
  outcome?: "created" | "replaced" | "unchanged";
  path: string;
  place?: string;
  seq: number;
  sha256: string;
  stepId: string;
  toLine?: number;
  type: "drive.read" | "drive.written";
  via?: "context" | "read" | "search";
}

export interface DriveFile {
  agentId: string;
  createdAt: string;
  id: string;
  lines: number | null;
  mimeType: string;
  pages: number | null;
  path: string;
  sha256: string;
  size: number;
  text: boolean;
  textEncoding: string | null;
  textNote: string | null;
  textStatus: "ready" | "partial" | "pending" | "none" | "empty" | "encrypted" | "broken" | "timeout" | "unsupported" | "failed" | "unknown_encoding";
  updatedAt: string;
  version: number;
}

export interface DriveFileList {
  commonPrefixes: string[];
  data: DriveFile[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface DriveHit {
  endLine: number;
  mimeType: string;
  path: string;
  place: string | null;
  score: number;
  sha256: string;
  snippet: string;
  startLine: number;
  version: number;
}

export interface DriveMove {
  from: string;
  op: "move";
  overwrite?: boolean | null;
  to: string;
}

export type DriveOperation = DrivePut | DriveDelete | DriveMove;

export interface DriveOutcome {
  file: DriveFile | null;
  outcome: "created" | "replaced" | "unchanged" | "moved" | "deleted";
  path: string;
}

export interface DrivePut {
  content: string;
  encoding?: "utf-8" | "base64" | null;
  ifMatch?: string | null;
  ifNoneMatch?: "*" | null;
  mimeType?: string | null;
  op: "put";
  path: string;
  textEncoding?: string | null;
}

export interface DriveSearchResult {
  cut: boolean;
  data: DriveHit[];
}

export interface DriveVersion {
  createdAt: string;
  current: boolean;
  mimeType: string;
  path: string;
  retiredAt: string | null;
  sha256: string;
  size: number;
  version: number;
}

export interface DriveVersionList {
  data: DriveVersion[];
}

export interface DuplicateAgent {
  name?: string | null;
  spaceId?: string | null;
}

export interface Effect {
  count: number;
  kind: string;
  outcome: string;
}

export interface Effects {
  data: Effect[];
  object: "effects";
  text: string;
}

export interface EmbedAgent {
  name: string;
}

export type EmbedAttachments = {
  enabled?: boolean | null;
  maxBytes?: number | null;
  maxFiles?: number | null;
  types?: ("image" | "pdf" | "text" | "document")[] | null;
} | null;

export interface EmbedChat {
  agent: EmbedAgent;
  attachments?: VisitorAttachments;
  chatExpiresAt: string;
  contact: boolean;
  error: EmbedError | null;
  expiresAt: string;
  feedback: boolean;
  greeting: string | null;
  hasEarlierMessages: boolean;
  id: string;
  lastEventSeq: number;
  logoUrl?: string | null;
  maxMessageChars: number;
  messages: EmbedMessage[];
  object: "embed.chat_session";
  pendingInput: PendingInput | null;
  personRequestedAt: string | null;
  remaining: EmbedRemaining;
  starters?: string[];
  status: SessionStatus;
  theme: "auto" | "light" | "dark";
  title?: string | null;
  waitingFor: "operator" | null;
}

export interface EmbedError {
  message: string;
  retryable: boolean;
}

export interface EmbedErrorEvent {
  createdAt: string;
  message: string;
  retryable: boolean;
  seq: number;
  turn: number;
  type: "error";
}

export type EmbedEvent = EmbedStatusEvent | MessageEvent | MessageDeltaEvent | InputEvent | EmbedErrorEvent;

export interface EmbedEventList {
  data: EmbedEvent[];
  hasMore: boolean;
  lastSeq: number;
}

export interface EmbedLauncher {
  accentColor: string | null;
  agent: EmbedAgent;
  id: string;
  language: string;
  logoUrl?: string | null;
  object: "embed.launcher";
  position: "right" | "left";
  theme: "auto" | "light" | "dark";
  title?: string | null;
}

export interface EmbedLogo {
  createdAt: string;
  height: number;
  id: string;
  mimeType: "image/png" | "image/jpeg" | "image/webp";
  object: "embed_logo";
  size: number;
  url: string;
  width: number;
}

export interface EmbedLogoList {
  data: EmbedLogo[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface EmbedMessage {
  attachments?: Attachment[];
  createdAt: string;
  feedback?: VisitorFeedback;
  id: string;
  kind: "message" | "answer" | "reply" | "comment" | "question" | "history";
  role: "user" | "assistant";
  status: "queued" | "in_progress" | "completed" | "cancelled" | "failed";
  text: string;
}

export interface EmbedRemaining {
  limitReached: boolean;
  messages: number;
}

export interface EmbedSession {
  agentId: string;
  allowedOrigins: string[];
  attachments?: VisitorAttachments;
  chatExpiresAt: string | null;
  chatSessionId: string;
  contact: boolean;
  createdAt: string;
  credentials?: Record<string, string> | null;
  externalUserId: string | null;
  feedback: boolean;
  greeting: string | null;
  id: string;
  lastMessageAt: string | null;
  logo?: string | null;
  maxCreditsMicro: number | null;
  maxMessageChars: number;
  maxMessages: number;
  messagesPerMinute: number;
  messagesSent: number;
  object: "embed_session";
  refusedOrigins: RefusedOrigin[];
  refusedRequests: number;
  revokedAt: string | null;
  starters?: string[];
  status: "pending" | "active" | "expired" | "revoked";
  theme: "auto" | "light" | "dark";
  title?: string | null;
}

export interface EmbedSessionList {
  data: EmbedSession[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface EmbedSessionWithToken {
  agentId: string;
  allowedOrigins: string[];
  attachments?: VisitorAttachments;
  chatExpiresAt: string | null;
  chatSessionId: string;
  contact: boolean;
  createdAt: string;
  expiresAt: string;
  externalUserId: string | null;
  feedback: boolean;
  greeting: string | null;
  id: string;
  lastMessageAt: string | null;
  logo?: string | null;
  maxCreditsMicro: number | null;
  maxMessageChars: number;
  maxMessages: number;
  messagesPerMinute: number;
  messagesSent: number;
  object: "embed_session";
  refusedOrigins: RefusedOrigin[];
  refusedRequests: number;
  revokedAt: string | null;
  starters?: string[];
  status: "pending" | "active" | "expired" | "revoked";
  theme: "auto" | "light" | "dark";
  title?: string | null;
  token: string;
}

export interface EmbedStatusEvent {
  createdAt: string;
  seq: number;
  status: SessionStatus;
  statusReason?: "waiting_for_operator";
  turn: number;
  type: "session.status";
}

export interface EmbedTag {
  accentColor: string | null;
  agentId: string;
  allowedOrigins: string[];
  attachments?: VisitorAttachments;
  chatsPerDay: number;
  contact: boolean;
  createdAt: string;
  credentials?: Record<string, string> | null;
  disabledReason: string | null;
  enabled: boolean;
  feedback: boolean;
  greeting: string | null;
  id: string;
  language: string;
  logo?: string | null;
  logoUrl?: string | null;
  maxCreditsMicro: number;
  object: "embed_tag";
  position: "right" | "left";
  previewUrl: string;
  refusedOrigins: RefusedOrigin[];
  refusedRequests: number;
  snippet: string;
  starters?: string[];
  theme: "auto" | "light" | "dark";
  title?: string | null;
  updatedAt: string;
}

export interface EmbedTagList {
  data: EmbedTag[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface EmbedTicket {
  url: string;
  visitorExpiresAt: string;
  visitorToken: string;
}

export interface EmbedToken {
  chatExpiresAt: string;
  chatSessionId: string;
  expiresAt: string;
  token: string;
}

export interface EmbedURL {
  agentId: string;
  allowedOrigins: string[];
  attachments?: VisitorAttachments;
  chatExpiresAt: string | null;
  chatSessionId: string;
  contact: boolean;
  createdAt: string;
  credentials?: Record<string, string> | null;
  exchangedAt: string | null;
  expiresAt: string;
  externalUserId: string | null;
  feedback: boolean;
  greeting: string | null;
  id: string;
  lastMessageAt: string | null;
  logo?: string | null;
  maxCreditsMicro: number | null;
  maxMessageChars: number;
  maxMessages: number;
  messagesPerMinute: number;
  messagesSent: number;
  object: "embed_url";
  refusedOrigins: RefusedOrigin[];
  refusedRequests: number;
  revokedAt: string | null;
  starters?: string[];
  status: "pending" | "active" | "expired" | "revoked";
  tagId?: string;
  theme: "auto" | "light" | "dark";
  title?: string | null;
}

export interface EmbedURLList {
  data: EmbedURL[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface EmbedURLWithLink {
  agentId: string;
  allowedOrigins: string[];
  attachments?: VisitorAttachments;
  chatExpiresAt: string | null;
  chatSessionId: string;
  contact: boolean;
  createdAt: string;
  exchangedAt: string | null;
  expiresAt: string;
  externalUserId: string | null;
  feedback: boolean;
  greeting: string | null;
  id: string;
  lastMessageAt: string | null;
  logo?: string | null;
  maxCreditsMicro: number | null;
  maxMessageChars: number;
  maxMessages: number;
  messagesPerMinute: number;
  messagesSent: number;
  object: "embed_url";
  refusedOrigins: RefusedOrigin[];
  refusedRequests: number;
  revokedAt: string | null;
  starters?: string[];
  status: "pending" | "active" | "expired" | "revoked";
  theme: "auto" | "light" | "dark";
  title?: string | null;
  url: string;
}

export interface Erasure {
  accountId: string;
  backups: string;
  changed: {
    auditEntries: number;
    receipts: number;
  };
  completedAt: string | null;
  createdAt: string;
  id: string;
  kind: "account" | "end_user";
  removed: {
    drives: number;
    rows: number;
    sessions: number;
  };
  replacementId: string | null;
  status: "running" | "completed";
}

export interface ErasureList {
  data: Erasure[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface Error {
  code: string;
  message: string;
  param: string | null;
  requestId: string;
  retryable: boolean;
  type: string;
}

export interface ErrorEnvelope {
  error: Error;
}

export interface ExchangeEmbedURL {
  embedUrlId: string;
  ticket: string;
}

export interface Feedback {
  agentId: string;
  agentName: string;
  by: "visitor" | "account";
  comment: string | null;
  createdAt: string;
  externalUserId: string | null;
  id: string;
  keyId: string | null;
  messageId: string;
  rating: "up" | "down";
  reply: string;
  sessionId: string;
  sessionTitle: string | null;
  turn: number;
  updatedAt: string;
}

export interface FeedbackList {
  data: Feedback[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface FunctionTool {
  description?: string | null;
  name: string;
  parameters?: Record<string, unknown> | null;
  strict?: boolean | null;
  type: "function";
}

export interface GeminiError {
  error: {
    code: number;
    details: {
      "@type": string;
      domain?: string;
      metadata?: Record<string, string>;
      reason?: string;
      retryDelay?: string;
    }[];
    message: string;
    status: "INVALID_ARGUMENT" | "UNAUTHENTICATED" | "PERMISSION_DENIED" | "NOT_FOUND" | "ABORTED" | "RESOURCE_EXHAUSTED" | "UNIMPLEMENTED" | "INTERNAL" | "UNAVAILABLE" | "DEADLINE_EXCEEDED";
  };
}

export interface GeminiModelInfo {
  displayName: string;
  inputTokenLimit?: number;
  name: string;
  outputTokenLimit?: number;
  supportedGenerationMethods: string[];
  version: string;
}

export interface GeminiModelList {
  models: GeminiModelInfo[];
}

export interface GenerateContent {
  contents: Content[];
  generationConfig?: Record<string, unknown> | null;
  safetySettings?: Record<string, unknown>[] | null;
  strictModel?: boolean | null;
  systemInstruction?: Record<string, unknown> | null;
  toolConfig?: Record<string, unknown> | null;
  tools?: Record<string, unknown>[] | null;
}

export interface GeneratedContent {
  candidates?: ({
    content?: {
      parts: GeneratedPart[];
      role: "model";
    };
    finishReason?: "STOP" | "MAX_TOKENS" | "SAFETY" | "MALFORMED_FUNCTION_CALL";
    index: 0;
  })[];
  modelVersion: string;
  promptFeedback?: {
    blockReason: "SAFETY";
  };
  responseId: string;
  usageMetadata?: {
    cachedContentTokenCount?: number;
    candidatesTokenCount: number;
    promptTokenCount: number;
    thoughtsTokenCount?: number;
    totalTokenCount: number;
  };
}

export interface GeneratedPart {
  functionCall?: {
    args: Record<string, unknown>;
    id: string;
    name: string;
  };
  text?: string;
  thought?: true;
  thoughtSignature?: string;
}

export interface GrammarToolFormat {
  definition: string;
  syntax: "lark" | "regex";
  type: "grammar";
}

export interface Grant {
  accountId: string;
  amountMicro: number;
  createdAt: string;
  externalRef: string | null;
  id: string;
  reason: string | null;
}

export interface Health {
  status: "ok";
  timestamp: string;
}

export interface Hook {
  agentId: string;
  createdAt: string;
  disabledReason: string | null;
  enabled: boolean;
  eventId: string | null;
  externalId: string | null;
  externalUserId: string | null;
  id: string;
  maxCreditsMicroPerTurn: number | null;
  message: string;
  mode: string;
  name: string;
  networks: string[];
  object: "hook";
  signature: HookSignature;
  turnsPerDay: number;
  updatedAt: string;
  url: string;
}

export interface HookList {
  data: Hook[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface HookReceipt {
  challenge: string | null;
  duplicate: boolean;
  object: "hook.receipt";
  sessionId: string | null;
  text?: string;
}

export interface HookSignature {
  algorithm?: "sha256" | "sha512" | null;
  encoding?: "hex" | "base64" | null;
  header?: string | null;
  kind: "standard" | "github" | "slack" | "hmac";
  prefix?: string | null;
}

export interface HookWithSecret {
  agentId: string;
  createdAt: string;
  disabledReason: string | null;
  enabled: boolean;
  eventId: string | null;
  externalId: string | null;
  externalUserId: string | null;
  id: string;
  maxCreditsMicroPerTurn: number | null;
  message: string;
  mode: string;
  name: string;
  networks: string[];
  object: "hook";
  previousEndsAt?: string | null;
  secret: string;
  signature: HookSignature;
  turnsPerDay: number;
  updatedAt: string;
  url: string;
}

export interface ImportServerSkills {
  connectionId: string;
  skills?: string[];
}

export interface InputAdditionalTools {
  tools: (FunctionTool | CustomTool | NamespaceTool | VendorTool | OtherTool)[];
  type: "additional_tools";
}

export interface InputCompaction {
  encrypted_content: string;
  type: "compaction" | "compaction_summary";
}

export interface InputCompactionTrigger {
  type: "compaction_trigger";
}

export interface InputCustomToolCall {
  call_id: string;
  input: string;
  name: string;
  namespace?: string | null;
  status?: "in_progress" | "completed" | "incomplete" | null;
  type: "custom_tool_call";
}

export interface InputEvent {
  answer?: string;
  calls?: InputEventCall[];
  confirmation?: ToolConfirmation;
  createdAt: string;
  defaultUsed?: boolean;
  defaultValue?: string;
  expiresAt?: string;
  inputId: string;
  kind: "question" | "choice" | "approval" | "tool_call" | "tool_approval" | "tool_confirmation";
  options?: string[];
  prompt?: string;
  seq: number;
  turn: number;
  type: "input.requested" | "input.answered" | "input.expired";
}

export interface InputEventCall {
  callId: string;
  effects: "read" | "idempotent" | "once";
  expiresAt: string;
  tool: string;
}

export interface InputFile {
  file_data?: string | null;
  file_url?: string | null;
  filename?: string | null;
  type: "input_file";
}

export interface InputFunctionCall {
  arguments: string;
  call_id: string;
  name: string;
  namespace?: string | null;
  status?: "in_progress" | "completed" | "incomplete" | null;
  type: "function_call";
}

export interface InputFunctionCallOutput {
  call_id: string;
  is_error?: boolean | null;
  output: string | InputPart[];
  type: "function_call_output" | "custom_tool_call_output";
}

export interface InputImage {
  detail?: "low" | "high" | "auto" | "original" | null;
  image_url: string;
  type: "input_image";
}

export type InputItem = InputMessage | InputReasoning | InputFunctionCall | InputFunctionCallOutput | InputCustomToolCall | InputVendorToolCall | InputVendorToolCallOutput | InputAdditionalTools | InputOtherItem | InputCompaction | InputCompactionTrigger;

export interface InputList {
  data: OpenInput[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface InputMessage {
  content: string | InputPart[];
  role: "user" | "assistant" | "system" | "developer";
  type?: "message";
}

export interface InputOtherItem {
  type: "web_search_call" | "file_search_call" | "code_interpreter_call" | "image_generation_call" | "mcp_call" | "mcp_list_tools" | "mcp_approval_request" | "mcp_approval_response";
}

export type InputPart = {
  text: string;
  type: "input_text" | "output_text" | "text";
} | {
  refusal: string;
  type: "refusal";
} | InputImage | InputFile;

export interface InputReasoning {
  encrypted_content?: string | null;
  type: "reasoning";
}

export interface InputTokens {
  input_tokens: number;
  object: "response.input_tokens";
}

export interface InputVendorToolCall {
  call_id?: string | null;
  status?: "in_progress" | "completed" | "incomplete" | null;
  type: "apply_patch_call" | "shell_call" | "local_shell_call" | "computer_call" | "tool_search_call";
}

export interface InputVendorToolCallOutput {
  call_id?: string | null;
  status?: "in_progress" | "completed" | "incomplete" | "failed" | null;
  type: "apply_patch_call_output" | "shell_call_output" | "local_shell_call_output" | "computer_call_output" | "tool_search_output";
}

export interface Invitation {
  accountName?: string;
  createdAt: string;
  createdBy: string | null;
  createdByName?: string;
  email: string | null;
  expiresAt: string;
  grantMicro?: number;
  id: string;
  name: string | null;
  operatorRole: "admin" | "support" | "billing" | null;
  plan?: string;
  role: "owner" | "member" | "viewer";
}

export interface InvitationList {
  data: Invitation[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface InvitationWithLink {
  accountName?: string;
  createdAt: string;
  createdBy: string | null;
  email: string | null;
  expiresAt: string;
  grantMicro?: number;
  id: string;
  link: string;
  mailed: boolean;
  name: string | null;
  notMailed?: "no_mail_server" | "no_public_url" | "no_secrets_key" | "mail_limit";
  operatorRole: "admin" | "support" | "billing" | null;
  plan?: string;
  role: "owner" | "member" | "viewer";
}

export interface InviteAccount {
  accountName: string;
  email?: string | null;
  grantMicro?: number | null;
  name?: string | null;
  plan?: string | null;
}

export interface InviteMember {
  email?: string | null;
  name?: string | null;
  operatorRole?: "admin" | "support" | "billing" | null;
  role: "owner" | "member" | "viewer";
}

export interface Key {
  createdAt: string;
  expiresAt: string | null;
  hint: string;
  id: string;
  lastUsedAt: string | null;
  maxCreditsMicroPerDay: number | null;
  memberId: string | null;
  models: string[] | null;
  name: string;
  networks: string[] | null;
  pausesAt: string | null;
  requestsPerMinute: number | null;
  requireEndUser: boolean;
  revokedAt: string | null;
  scopes: string[];
  status: "active" | "expired" | "revoked";
}

export interface KeyList {
  data: Key[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface KeyOfCaller {
  expiresAt: string | null;
  hint: string;
  id: string;
  maxCreditsMicroPerDay: number | null;
  name: string;
  scopes: string[];
  spentTodayMicro: number | null;
}

export interface KeyWithSecret {
  createdAt: string;
  expiresAt: string | null;
  hint: string;
  id: string;
  lastUsedAt: string | null;
  maxCreditsMicroPerDay: number | null;
  memberId: string | null;
  models: string[] | null;
  name: string;
  networks: string[] | null;
  pausesAt: string | null;
  replaces: {
    endsAt: string;
    id: string;
  } | null;
  requestsPerMinute: number | null;
  requireEndUser: boolean;
  revokedAt: string | null;
  scopes: string[];
  secret: string;
  status: "active" | "expired" | "revoked";
}

export interface LedgerEntry {
  amountMicro: number;
  createdAt: string;
  id: string;
  reason: string | null;
  ref: string | null;
  type: "grant" | "charge" | "refund" | "adjust";
}

export interface LedgerList {
  data: LedgerEntry[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface Limits {
  defaultEmbedCreditsMicro: number;
  defaultTurnCreditsMicro: number;
  embedTokenSeconds: number;
  embedUrlSeconds: number;
  idempotencySeconds: number;
  inputSeconds: number;
  maxAgentVersions: number;
  maxAgents: number;
  maxApprovalCommentCharacters: number;
  maxApprovalSeconds: number;
  maxBodiesInFlightBytes: number;
  maxBodyBytes: number;
  maxConfirmationSeconds: number;
  maxConnectionCallsPerMinute: number;
  maxConnectionConcurrent: number;
  maxConnectionDocumentBytes: number;
  maxConnectionOperations: number;
  maxConnectionResultBytes: number;
  maxConnectionTimeoutSeconds: number;
  maxConnectionTools: number;
  maxConnections: number;
  maxConnectionsPerAddress: number;
  maxConnectionsPerSpace: number;
  maxDescriptionCharacters: number;
  maxDriveBytes: number;
  maxDriveBytesPerAccount: number;
  maxDriveFiles: number;
  maxDrivePathBytes: number;
  maxDriveSegmentBytes: number;
  maxEmbedLogoBytes?: number;
  maxEmbedLogos?: number;
  maxEmbedTags: number;
  maxEmbedsPerDay: number;
  maxEndedKeys: number;
  maxEventStreamsPerAccount: number;
  maxEventStreamsPerKey: number;
  maxFileBytes: number;
  maxHooks: number;
  maxInputWaitsPerAccount: number;
  maxInstructionsCharacters: number;
  maxInvitations: number;
  maxKeys: number;
  maxMembers: number;
  maxMessageCharacters: number;
  maxNameCharacters: number;
  maxPageSize: number;
  maxPendingPayments?: number;
  maxPublicFields: number;
  maxQueuedMessages: number;
  maxQueuedSessions: number;
  maxScheduledTasks: number;
  maxScheduledTasksPerAccount: number;
  maxSearchedTools: number;
  maxSecrets: number;
  maxServerCallsAtOnce: number;
  maxServerCallsPerMinute: number;
  maxServerSessions: number;
  maxShownArgumentsBytes: number;
  maxShownResultBytes: number;
  maxSpaces: number;
  maxTestQuestions: number;
  maxTestSetBytes: number;
  maxTestSets: number;
  maxToolCallsPerChat: number;
  maxToolCallsPerStep: number;
  maxToolCallsPerTurn: number;
  maxToolDefinitionTokens: number;
  maxToolOutputBytes: number;
  maxToolParametersBytes: number;
  maxToolWaitsPerTurn: number;
  maxTools: number;
  maxTurnSeconds: number;
  maxTurnSteps: number;
  maxVisitorStreamsPerAccount: number;
  maxWebhooks: number;
  minScheduleSeconds: number;
  queueSeconds: number;
  requestsKeptPerAccount: number;
  requestsKeptSeconds: number;
  searchMilliseconds: number;
  serverSessionIdleSeconds: number;
}

export interface LongInput {
  input: number;
  output: number;
  tokens: number;
}

export type ManagedSettings = Record<string, unknown>;

export interface Member {
  createdAt: string;
  email: string | null;
  id: string;
  issuer: string | null;
  keyId: string;
  lastUsedAt: string | null;
  name: string | null;
  operatorRole: "admin" | "support" | "billing" | null;
  role: "owner" | "member" | "viewer";
  source: "invited" | "group";
}

export interface MemberList {
  data: Member[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface Memory {
  bytes: number;
  createdAt: string;
  externalUserId: string;
  notes: number;
  updatedAt: string;
}

export interface MemoryList {
  data: Memory[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface MemoryNote {
  bytes: number;
  createdAt: string;
  name: string;
  text: string;
  updatedAt: string;
}

export interface MemoryNoteList {
  data: MemoryNote[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface Message {
  attachments?: Attachment[];
  createdAt: string;
  feedback?: MessageFeedback[];
  id: string;
  kind: "message" | "answer" | "reply" | "comment" | "question" | "history";
  role: "user" | "assistant";
  sources: Source[];
  status: "queued" | "in_progress" | "completed" | "cancelled" | "failed";
  text: string;
  turn: number | null;
}

export type MessageBlock = {
  text: string;
  type: "text";
} | {
  signature: string;
  thinking: string;
  type: "thinking";
} | {
  id: string;
  input: Record<string, unknown>;
  name: string;
  type: "tool_use";
};

export interface MessageDeltaEvent {
  createdAt: string;
  messageId: string;
  offset: number;
  seq: number;
  text: string;
  type: "message.delta";
}

export interface MessageError {
  error: MessageErrorBody;
  request_id: string;
  type: "error";
}

export interface MessageErrorBody {
  code: string;
  details?: {
    error_code: "thread_unsupported_request";
    unsupported: "thread"[];
  };
  message: string;
  param: string | null;
  retryable: boolean;
  type: "invalid_request_error" | "authentication_error" | "billing_error" | "permission_error" | "not_found_error" | "request_too_large" | "rate_limit_error" | "api_error" | "timeout_error" | "overloaded_error";
}

export interface MessageEvent {
  apart?: boolean;
  attachments?: Attachment[];
  createdAt: string;
  kind: "message" | "answer" | "reply" | "comment" | "question";
  messageId: string;
  role: "user" | "assistant";
  seq: number;
  status: "queued" | "in_progress" | "completed" | "cancelled" | "failed";
  text?: string;
  turn: number;
  type: "message.created" | "message.completed";
}

export interface MessageFeedback {
  by: "visitor" | "account";
  comment: string | null;
  rating: "up" | "down";
  updatedAt: string;
}

export interface MessageInput {
  content: unknown;
  role: "user" | "assistant" | "system";
}

export interface MessageList {
  data: Message[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface MessageReply {
  content: MessageBlock[];
  id: string;
  model: string;
  role: "assistant";
  stop_reason: "end_turn" | "max_tokens" | "stop_sequence" | "tool_use" | "refusal" | "calls_dropped" | null;
  stop_sequence: string | null;
  type: "message";
  usage: MessageUsage;
}

export interface MessageStreamEvent {
  content_block?: MessageBlock;
  delta?: {
    partial_json?: string;
    signature?: string;
    stop_reason?: "end_turn" | "max_tokens" | "stop_sequence" | "tool_use" | "refusal" | "calls_dropped" | null;
    stop_sequence?: string | null;
    text?: string;
    thinking?: string;
    type?: "text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta";
  };
  error?: MessageErrorBody;
  index?: number;
  message?: MessageReply;
  request_id?: string;
  type: "message_start" | "ping" | "content_block_start" | "content_block_delta" | "content_block_stop" | "message_delta" | "message_stop" | "error";
  usage?: MessageUsage;
}

export interface MessageTokens {
  input_tokens: number;
}

export interface MessageTool {
  description?: string | null;
  input_schema?: Record<string, unknown> | null;
  name: string;
  strict?: boolean | null;
  type?: "custom" | null;
}

export interface MessageUsage {
  cache_creation?: {
    ephemeral_1h_input_tokens: number;
    ephemeral_5m_input_tokens: number;
  };
  cache_creation_input_tokens: number;
  cache_read_input_tokens: number;
  input_tokens: number;
  output_tokens: number;
  output_tokens_details?: {
    thinking_tokens: number;
  };
}

export interface Meta {
  apiVersion: string;
  commit: string;
  contact: Contact;
  defaultModel: string;
  docs: DocsLinks;
  extensions?: string[];
  limits: Limits;
  models: Model[];
  name: string;
  payments?: boolean;
  plans: PlanDetails[];
  version: string;
}

export type Metadata = Record<string, string>;

export interface Model {
  aliases: string[];
  available: boolean;
  contextTokens: number | null;
  deprecatedAliases: string[];
  family: string;
  gated: boolean;
  id: string;
  maxOutputTokens: number | null;
  price: Price;
  sandbox: boolean;
}

export interface ModelArchitecture {
  input_modalities: ("text" | "image" | "file")[];
  output_modalities: "text"[];
}

export interface ModelInfo {
  created_at: string;
  display_name: string;
  id: string;
  type: "model";
}

export interface ModelInfoList {
  data: ModelInfo[];
  first_id: string;
  has_more: boolean;
  last_id: string;
}

export interface ModelObject {
  architecture?: ModelArchitecture;
  context_length?: number;
  created: number;
  id: string;
  name?: string;
  object: "model";
  owned_by: "stoa";
  pricing?: ModelPricing;
  supported_parameters?: string[];
  top_provider?: ModelTopProvider;
}

export interface ModelObjectList {
  data: ModelObject[];
  object: "list";
}

export interface ModelPricing {
  completion: string;
  input_cache_read: string;
  input_cache_write: string;
  prompt: string;
}

export interface ModelTopProvider {
  max_completion_tokens: number;
}

export interface MoveDriveFile {
  from: string;
  overwrite?: boolean | null;
  to: string;
}

export interface NamespaceTool {
  description?: string | null;
  name: string;
  tools: (FunctionTool | CustomTool | OtherToolOfNamespace)[];
  type: "namespace";
}

export interface Node {
  address: string;
  calls: number;
  configHash: string;
  configProblem: string | null;
  configVersion: number;
  id: string;
  seenAt: string;
  self: boolean;
  sessions: number;
  startedAt: string;
  version: string;
}

export interface NodeList {
  data: Node[];
  database: "sqlite" | "postgresql";
  sameConfig: boolean;
}

export interface Notice {
  consolePath: string;
  message: string;
  object: "notice";
  scope: string;
  since: string | null;
  subject: string | null;
  type: string;
}

export interface NoticeList {
  data: Notice[];
}

export interface OpenInput {
  agentId: string;
  agentName: string;
  calls: PendingToolCall[];
  claimId: string | null;
  claimedUntil: string | null;
  createdAt: string;
  expiresAt: string;
  externalUserId: string | null;
  id: string;
  kind: "tool_call" | "tool_approval";
  object: "input";
  prompt: string;
  sessionId: string;
  sessionTitle: string | null;
  turn: number;
}

export interface OtherTool {
  type: string;
}

export interface OtherToolOfNamespace {
  type: string;
}

export interface OutputCustomToolCall {
  call_id: string;
  id: string;
  input: string;
  name: string;
  namespace?: string;
  status: "in_progress" | "completed" | "incomplete";
  type: "custom_tool_call";
}

export interface OutputFunctionCall {
  arguments: string;
  call_id: string;
  id: string;
  name: string;
  namespace?: string;
  status: "in_progress" | "completed" | "incomplete";
  type: "function_call";
}

export type OutputItem = OutputMessage | OutputReasoning | OutputFunctionCall | OutputCustomToolCall | OutputVendorToolCall | Compaction;

export interface OutputMessage {
  content: OutputPart[];
  id: string;
  phase?: string;
  role: "assistant";
  status: "in_progress" | "completed" | "incomplete";
  type: "message";
}

export type OutputPart = OutputText | OutputRefusal;

export interface OutputReasoning {
  encrypted_content?: string;
  id: string;
  summary: SummaryText[];
  type: "reasoning";
}

export interface OutputRefusal {
  refusal: string;
  type: "refusal";
}

export interface OutputText {
  annotations: unknown[];
  logprobs: unknown[];
  text: string;
  type: "output_text";
}

export interface OutputVendorToolCall {
  action?: Record<string, unknown>;
  actions?: Record<string, unknown>[];
  call_id: string;
  execution?: string;
  id: string;
  operation?: Record<string, unknown>;
  status: "in_progress" | "completed";
  type: "apply_patch_call" | "shell_call" | "local_shell_call" | "computer_call" | "tool_search_call";
}

export interface Pack {
  amount: number;
  creditsMicro: number;
  currency: string;
  id: string;
  name: string;
}

export interface PackList {
  data: Pack[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface Payment {
  accountId: string;
  amount: number;
  checkoutUrl: string | null;
  createdAt: string;
  creditsMicro: number;
  currency: string;
  disputed: boolean;
  id: string;
  keyId: string;
  live: boolean;
  name: string;
  pack: string;
  paidAt: string | null;
  refundedAmount: number;
  state: "pending" | "paid" | "expired" | "failed" | "rejected";
  withdrawnMicro: number;
}

export interface PaymentList {
  data: Payment[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface PendingInput {
  calls?: PendingToolCall[];
  claimedUntil?: string;
  confirmation?: ToolConfirmation;
  defaultValue: string | null;
  expiresAt: string;
  id: string;
  kind: "question" | "choice" | "approval" | "tool_call" | "tool_approval" | "tool_confirmation";
  options: string[];
  prompt: string;
}

export interface PendingToolCall {
  arguments: ToolArguments;
  argumentsStart?: string;
  callId: string;
  connectionId?: string;
  decision?: "approve" | "reject" | "expired";
  effects: "read" | "idempotent" | "once";
  expiresAt: string;
  previousOutcome?: "unknown";
  status: "planned" | "waiting" | "started" | "done";
  title?: string;
  tool: string;
}

export interface PersonRequestedEvent {
  createdAt: string;
  seq: number;
  turn: number;
  type: "person.requested";
}

export interface Plan {
  gatedModels: boolean;
  id: string;
  name: string;
}

export interface PlanDetails {
  activeSessions: number | null;
  concurrentPerAccount: number | null;
  concurrentPerKey: number | null;
  gatedModels: boolean;
  id: string;
  includedMicro?: number;
  name: string;
  requestsPerMinute: number | null;
  requestsPerMinutePerAccount: number | null;
}

export interface PreviewPrices {
  groupBy?: ("account" | "model" | "plan")[] | null;
  month: string;
  settings?: ManagedSettings;
}

export interface PreviewSchedule {
  count?: number | null;
  endAt?: string | null;
  maxRuns?: number | null;
  schedule: Schedule;
  startAt?: string | null;
}

export interface PreviewedRun {
  adjustment: "gap" | "fold" | null;
  at: string;
  localTime: string;
}

export interface Price {
  above?: LongInput;
  band?: string | null;
  cacheWriteLongMicroPerMillion: number;
  cacheWriteMicroPerMillion: number;
  cachedInputMicroPerMillion: number;
  hours?: PriceHours[];
  inputMicroPerMillion: number;
  outputMicroPerMillion: number;
  version: string;
}

export interface PriceChange {
  after: ConfigPrice;
  before: ConfigPrice;
  model: string;
}

export interface PriceHours {
  days?: ("mon" | "tue" | "wed" | "thu" | "fri" | "sat" | "sun")[];
  factor: number;
  from: string;
  to: string;
  zone: string;
}

export interface PricesPreview {
  data: PricesPreviewRow[];
  groupBy: ("account" | "model" | "plan")[];
  month: string;
  totals: PricesPreviewRow;
}

export interface PricesPreviewRow {
  accountId?: string;
  accountName?: string;
  calls: number;
  chargedMicro: number;
  differenceMicro: number;
  model?: string;
  newMicro: number;
  plan?: string;
}

export interface ProtocolMessage {
  jsonrpc: "2.0";
}

export interface Provider {
  disabled: boolean;
  failures: number;
  inFlight: number;
  lastFailure: ProviderFailure | null;
  listProblem: string | null;
  maxInFlight: number;
  models: string[];
  name: string;
  refused: number;
  requests: number;
  retries: number;
  routes: ProviderRoute[];
  timeouts: number;
  wire: string;
}

export interface ProviderFailure {
  at: string;
  code: string;
  status: number | null;
  text: string;
}

export interface ProviderList {
  active: number;
  data: Provider[];
  retrying: number;
}

export interface ProviderRoute {
  failures: number;
  inFlight: number;
  lastFailure: ProviderFailure | null;
  model: string;
  openUntil: string | null;
  requests: number;
  retries: number;
  state: "closed" | "open" | "half_open";
  timeouts: number;
}

export interface ProviderTest {
  attempts: number;
  durationMilliseconds: number;
  errorCode: string | null;
  model: string | null;
  ok: boolean;
  provider: string;
  status: number | null;
  text: string;
  timeToFirstTokenMilliseconds: number | null;
}

export interface Receipt {
  accountId?: string;
  accountName?: string;
  adjustments?: ("tool_choice_auto" | "strict_dropped" | "schema_rewritten" | "format_in_words" | "reasoning_unread" | "reasoning_left_out" | "media_estimated" | "calls_dropped" | "invalid_arguments" | "invalid_json" | "tools_left_out" | "reply_cut" | "reply_broken" | "media_left_out" | "stop_cut_here" | "cache_marks_changed" | "grammar_in_words" | "items_left_out" | "end_unknown" | "limit_set_here")[];
  agentId: string | null;
  agentName?: string;
  cache: ReceiptCache;
  capped: boolean;
  clamped: boolean;
  createdAt: string;
  creditsMicro: number;
  durationMilliseconds: number;
  embedId: string | null;
  endUser: string | null;
  estimated: boolean;
  id: string;
  ignored?: string[];
  keyId: string;
  keyName?: string;
  memberId: string | null;
  model: {
    fallbackReason: "alias" | "auto" | "plan" | null;
    requested: string;
    served: string;
  };
  price: Price;
  route: ReceiptRoute;
  sessionId: string | null;
  spaceId: string | null;
  startedAt: string;
  status: "completed" | "incomplete" | "cancelled";
  timeToFirstTokenMilliseconds: number | null;
  usage: {
    cacheWriteLongTokens: number;
    cacheWriteTokens: number;
    cachedInputTokens: number;
    inputTokens: number;
    outputTokens: number;
    reasoningTokens: number;
    totalTokens: number;
  };
  writtenOffMicro: number;
}

export interface ReceiptCache {
  broke: "model" | "tools" | "instructions" | "knowledge" | "compacted" | "route" | "expired" | null;
  marks: "none" | "caller" | "stoa" | "vendor" | null;
  savedMicro: number;
}

export interface ReceiptList {
  data: Receipt[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface ReceiptRoute {
  key: string | null;
  provider: string;
  reason: "order" | "reasoning" | "cache" | "failover" | null;
}

export interface RecentCalls {
  calls: number;
  errors: number;
  p50Milliseconds: number | null;
  p95Milliseconds: number | null;
}

export interface RecentError {
  at: string;
  code: string;
  requestId: string;
  status: number;
  text: string;
}

export interface RecentModel {
  day: RecentCalls;
  hour: RecentCalls;
  model: string;
}

export interface RecentProvider {
  day: RecentCalls;
  hour: RecentCalls;
  lastError: RecentError | null;
  models: RecentModel[];
  name: string;
}

export interface RecentProviderList {
  cut: boolean;
  data: RecentProvider[];
  rows: number;
  since: string;
  unserved: UnservedCalls;
}

export interface Reconciliation {
  availableMicro: number;
  balanced: boolean;
  charges: number;
  chargesMicro: number;
  checkedAt: string;
  differences: Difference[];
  grantedMicro: number;
  heldMicro: number;
  receiptsMicro: number;
}

export interface RecoverWebhook {
  since: string;
  until?: string | null;
}

export interface RefreshedConnection {
  added: string[];
  changed: string[];
  connection: Connection;
  missing: string[];
  unchanged: number;
}

export interface RefusedOrigin {
  lastAt: string;
  origin: string;
  times: number;
}

export interface ReplyRejectedEvent {
  createdAt: string;
  problem: string;
  seq: number;
  step: number;
  stepId: string;
  turn: number;
  type: "reply.rejected";
}

export type ReplySchema = Record<string, unknown> | null;

export type ReplyValue = Record<string, unknown> | null;

export interface Request {
  accountId: string;
  accountName?: string;
  attempts: number;
  cachedInputTokens: number;
  clamped: boolean;
  clientAddress: string | null;
  createdAt: string;
  creditsMicro: number;
  disconnected: boolean;
  durationMilliseconds: number;
  errorCode: string | null;
  errorParam: string | null;
  estimated: boolean;
  id: string;
  inputTokens: number;
  keyId: string;
  keyName?: string;
  model: {
    requested: string | null;
    served: string | null;
  };
  outputTokens: number;
  provider: string | null;
  receiptId: string | null;
  replayed: boolean;
  responseId: string | null;
  startedAt: string;
  status: number;
  stream: boolean;
  timeToFirstTokenMilliseconds: number | null;
}

export interface RequestFile {
  lines: number | null;
  path: string;
  sha256: string;
}

export interface RequestGroup {
  accountId?: string;
  accountName?: string;
  creditsMicro: number;
  errors: number;
  from?: string | null;
  inputTokens: number;
  keyId?: string;
  keyName?: string;
  medianDurationMilliseconds: number | null;
  medianTimeToFirstTokenMilliseconds: number | null;
  model?: string | null;
  outputTokens: number;
  p95DurationMilliseconds: number | null;
  p95TimeToFirstTokenMilliseconds: number | null;
  provider?: string | null;
  requests: number;
}

export interface RequestList {
  data: Request[];
  dropped: {
    count: number;
    since: string;
    until: string;
  } | null;
  followCursor: string;
  hasMore: boolean;
  nextCursor: string | null;
}

export interface RequestPart {
  cachedTokens: number;
  callId: string | null;
  files: RequestFile[];
  isError: boolean;
  kind: "tools" | "instructions" | "skills" | "service" | "format" | "files" | "summary" | "history" | "found" | "note" | "memory" | "message" | "step";
  missing: boolean;
  name: string | null;
  new: boolean;
  role: "system" | "user" | "assistant" | "tool";
  step: number | null;
  text: string;
  tokens: number;
  truncated: boolean;
  turn: number | null;
  type: "text" | "tool" | "call" | "result" | "image" | "reasoning";
}

export interface RequestSummary {
  complete: boolean;
  data: RequestGroup[];
  totals: RequestSums;
}

export interface RequestSums {
  creditsMicro: number;
  errors: number;
  inputTokens: number;
  medianDurationMilliseconds: number | null;
  medianTimeToFirstTokenMilliseconds: number | null;
  outputTokens: number;
  p95DurationMilliseconds: number | null;
  p95TimeToFirstTokenMilliseconds: number | null;
  requests: number;
}

export interface RequestedPerson {
  requestedAt: string;
}

export interface RereadDriveFile {
  path: string;
  textEncoding?: string | null;
}

export interface ResolveToolCall {
  note?: string | null;
  outcome: "done" | "not_done";
}

export interface Response {
  background: boolean;
  completed_at: number | null;
  conversation?: {
    id: string;
  };
  created_at: number;
  error: {
    code: string;
    message: string;
  } | null;
  frequency_penalty: number;
  id: string;
  incomplete_details: {
    reason: "max_output_tokens" | "content_filter" | "calls_dropped";
  } | null;
  instructions: string | null;
  max_output_tokens: number | null;
  max_tool_calls: number | null;
  metadata: Record<string, string>;
  model: string;
  object: "response";
  output: OutputItem[];
  parallel_tool_calls: boolean;
  presence_penalty: number;
  previous_response_id: null;
  prompt_cache_key: string | null;
  reasoning: {
    effort: string | null;
    summary: string | null;
  } | null;
  safety_identifier: string | null;
  service_tier: "default";
  status: "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";
  store: false;
  temperature: number;
  text: {
    format: {
      description?: string | null;
      name?: string;
      schema?: Record<string, unknown>;
      strict?: boolean;
      type: "text" | "json_object" | "json_schema";
    };
    verbosity?: "low" | "medium" | "high";
  };
  tool_choice: "auto" | "none" | "required" | ToolChoice;
  tools: (ResponseFunctionTool | ResponseCustomTool | ResponseNamespaceTool | VendorTool)[];
  top_logprobs: 0;
  top_p: number;
  truncation: "auto" | "disabled";
  usage: {
    input_tokens: number;
    input_tokens_details: {
      cache_write_tokens: number;
      cached_tokens: number;
    };
    output_tokens: number;
    output_tokens_details: {
      reasoning_tokens: number;
    };
    total_tokens: number;
  } | null;
  user: string | null;
}

export interface ResponseCompletedEvent {
  response: Response;
  sequence_number: number;
  type: "response.completed";
}

export interface ResponseContentPartAddedEvent {
  content_index: 0 | 1;
  item_id: string;
  output_index: number;
  part: OutputPart;
  sequence_number: number;
  type: "response.content_part.added";
}

export interface ResponseContentPartDoneEvent {
  content_index: 0 | 1;
  item_id: string;
  output_index: number;
  part: OutputPart;
  sequence_number: number;
  type: "response.content_part.done";
}

export interface ResponseCreatedEvent {
  response: Response;
  sequence_number: number;
  type: "response.created";
}

export interface ResponseCustomTool {
  description: string | null;
  format: TextToolFormat | GrammarToolFormat;
  name: string;
  type: "custom";
}

export interface ResponseCustomToolCallInputDeltaEvent {
  delta: string;
  item_id: string;
  output_index: number;
  sequence_number: number;
  type: "response.custom_tool_call_input.delta";
}

export interface ResponseCustomToolCallInputDoneEvent {
  input: string;
  item_id: string;
  output_index: number;
  sequence_number: number;
  type: "response.custom_tool_call_input.done";
}

export interface ResponseErrorEvent {
  code: string;
  error: {
    code: string;
    message: string;
    param: string | null;
    type: string;
  };
  message: string;
  param: string | null;
  sequence_number: number;
  type: "error";
}

export interface ResponseFailedEvent {
  response: Response;
  sequence_number: number;
  type: "response.failed";
}

export interface ResponseFunctionCallArgumentsDeltaEvent {
  delta: string;
  item_id: string;
  output_index: number;
  sequence_number: number;
  type: "response.function_call_arguments.delta";
}

export interface ResponseFunctionCallArgumentsDoneEvent {
  arguments: string;
  item_id: string;
  name: string;
  output_index: number;
  sequence_number: number;
  type: "response.function_call_arguments.done";
}

export interface ResponseFunctionTool {
  description: string | null;
  name: string;
  parameters: Record<string, unknown> | null;
  strict: boolean;
  type: "function";
}

export interface ResponseInProgressEvent {
  response: Response;
  sequence_number: number;
  type: "response.in_progress";
}

export interface ResponseIncompleteEvent {
  response: Response;
  sequence_number: number;
  type: "response.incomplete";
}

export interface ResponseNamespaceTool {
  description: string | null;
  name: string;
  tools: (ResponseFunctionTool | ResponseCustomTool)[];
  type: "namespace";
}

export interface ResponseOutputItemAddedEvent {
  item: OutputItem;
  output_index: number;
  sequence_number: number;
  type: "response.output_item.added";
}

export interface ResponseOutputItemDoneEvent {
  item: OutputItem;
  output_index: number;
  sequence_number: number;
  type: "response.output_item.done";
}

export interface ResponseOutputTextDeltaEvent {
  content_index: 0;
  delta: string;
  item_id: string;
  logprobs: unknown[];
  output_index: number;
  sequence_number: number;
  type: "response.output_text.delta";
}

export interface ResponseOutputTextDoneEvent {
  content_index: 0;
  item_id: string;
  logprobs: unknown[];
  output_index: number;
  sequence_number: number;
  text: string;
  type: "response.output_text.done";
}

export interface ResponseReasoningSummaryPartAddedEvent {
  item_id: string;
  output_index: number;
  part: SummaryText;
  sequence_number: number;
  summary_index: 0;
  type: "response.reasoning_summary_part.added";
}

export interface ResponseReasoningSummaryPartDoneEvent {
  item_id: string;
  output_index: number;
  part: SummaryText;
  sequence_number: number;
  summary_index: 0;
  type: "response.reasoning_summary_part.done";
}

export interface ResponseReasoningSummaryTextDeltaEvent {
  delta: string;
  item_id: string;
  output_index: number;
  sequence_number: number;
  summary_index: 0;
  type: "response.reasoning_summary_text.delta";
}

export interface ResponseReasoningSummaryTextDoneEvent {
  item_id: string;
  output_index: number;
  sequence_number: number;
  summary_index: 0;
  text: string;
  type: "response.reasoning_summary_text.done";
}

export interface ResponseRefusalDeltaEvent {
  content_index: 0 | 1;
  delta: string;
  item_id: string;
  output_index: number;
  sequence_number: number;
  type: "response.refusal.delta";
}

export interface ResponseRefusalDoneEvent {
  content_index: 0 | 1;
  item_id: string;
  output_index: number;
  refusal: string;
  sequence_number: number;
  type: "response.refusal.done";
}

export type ResponseStreamEvent = ResponseCreatedEvent | ResponseInProgressEvent | ResponseOutputItemAddedEvent | ResponseContentPartAddedEvent | ResponseOutputTextDeltaEvent | ResponseOutputTextDoneEvent | ResponseContentPartDoneEvent | ResponseOutputItemDoneEvent | ResponseCompletedEvent | ResponseIncompleteEvent | ResponseFailedEvent | ResponseErrorEvent | ResponseReasoningSummaryPartAddedEvent | ResponseReasoningSummaryTextDeltaEvent | ResponseReasoningSummaryTextDoneEvent | ResponseReasoningSummaryPartDoneEvent | ResponseFunctionCallArgumentsDeltaEvent | ResponseFunctionCallArgumentsDoneEvent | ResponseCustomToolCallInputDeltaEvent | ResponseCustomToolCallInputDoneEvent | ResponseRefusalDeltaEvent | ResponseRefusalDoneEvent;

export interface RestoreDriveFile {
  path: string;
  version: number;
}

export interface RetrySession {
  acknowledgeEffects?: boolean | null;
}

export interface ReviewConnectionTool {
  approval?: "always" | "never" | null;
  decision: "approve" | "reject";
  effects?: "read" | "idempotent" | "once" | null;
  idempotencyArgument?: string | null;
  name: string;
  onUnknown?: "tell_model" | "fail" | null;
  policy?: "by_annotations" | null;
  publicFields?: string[] | null;
  sha256: string;
  visitorTitle?: string | null;
  visitors?: "no" | "yes" | "confirm" | null;
}

export interface ReviewConnectionTools {
  tools: ReviewConnectionTool[];
}

export interface ReviewSkill {
  digest: string;
}

export interface RollbackAgent {
  version: number;
}

export interface RotateHookSecret {
  overlapSeconds?: number | null;
  secret?: string | null;
}

export interface RotateKey {
  overlapSeconds?: number | null;
}

export interface RotateWebhookSecret {
  overlapSeconds?: number | null;
}

export interface RunAgentInput {
  context?: Record<string, unknown>[] | null;
  forwardedProps?: unknown;
  messages: RunMessage[];
  parentRunId?: string | null;
  protocolVersion?: string | null;
  resume?: RunResume[] | null;
  runId: string;
  state?: unknown;
  threadId: string;
  tools?: RunTool[] | null;
}

export interface RunEvent {
  type: "RUN_STARTED" | "MESSAGES_SNAPSHOT" | "STEP_STARTED" | "STEP_FINISHED" | "TEXT_MESSAGE_START" | "TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_END" | "TOOL_CALL_START" | "TOOL_CALL_ARGS" | "TOOL_CALL_END" | "TOOL_CALL_RESULT" | "RUN_FINISHED" | "RUN_ERROR";
}

export interface RunMessage {
  content?: unknown;
  error?: string | null;
  id: string;
  role: "user" | "assistant" | "tool" | "system" | "developer" | "activity" | "reasoning";
  toolCallId?: string | null;
}

export interface RunResume {
  interruptId: string;
  payload?: unknown;
  status: "resolved" | "cancelled";
}

export interface RunTestSet {
  draft?: AgentDraft;
  maxCreditsMicro: number;
  version?: number | null;
}

export interface RunTool {
  name: string;
}

export interface Schedule {
  everySeconds?: number | null;
  expression?: string | null;
  runAt?: string | null;
  timezone?: string | null;
  type: "cron" | "interval" | "once";
}

export interface SchedulePreview {
  runs: PreviewedRun[];
}

export interface ScheduledTask {
  agentId: string;
  catchUpWindowSeconds: number;
  counters: TaskCounters;
  createdAt: string;
  credentials?: Record<string, string> | null;
  enabled: boolean;
  endAt: string | null;
  id: string;
  lastRun: TaskRun | null;
  maxCreditsMicroPerRun: number | null;
  maxRuns: number | null;
  message: string;
  missedRunPolicy: "run_latest" | "skip" | "run_all";
  mode: "chat" | "once";
  name: string;
  nextRunAt: string | null;
  object: "scheduled_task";
  overlapPolicy: "skip" | "queue" | "allow";
  pauseAfterFailures: number;
  pauseReason: string | null;
  schedule: Schedule;
  sessionId: string | null;
  sessionPolicy: "new" | "reuse";
  startAt: string | null;
  status: "active" | "paused" | "finished";
  upcomingRunsAt: string[];
  updatedAt: string;
}

export interface ScheduledTaskList {
  data: ScheduledTask[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface Secret {
  connectionIds: string[];
  createdAt: string;
  deletedAt?: string | null;
  expiresAt: string | null;
  externalUserId: string | null;
  headerName: string | null;
  hint: string | null;
  id: string;
  kind: "bearer" | "header" | "basic" | "query" | "token";
  lastUsedAt: string | null;
  name: string;
  origin: string;
  parameterName: string | null;
  spaceId: string | null;
  spaceName?: string;
  unreadable: boolean;
  updatedAt: string;
  usedBy: SecretUser[];
  version: number;
}

export interface SecretList {
  data: Secret[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface SecretUser {
  connectionId: string;
  connectionName?: string;
  use: "requests" | "oauth_client";
}

export interface SendEmbedMessage {
  attachments?: AddUpload[] | null;
  message: string;
  timezone?: string;
}

export interface SendMessage {
  attachments?: AddAttachment[] | null;
  message: string;
  onBusy?: "enqueue" | "reject" | null;
}

export interface Session {
  accountId?: string;
  accountName?: string;
  agentId: string;
  agentName?: string;
  agentVersion: number;
  createdAt: string;
  credentials?: Record<string, string> | null;
  draft: boolean;
  error: SessionFailure | null;
  externalId: string | null;
  externalUserId: string | null;
  finishedAt: string | null;
  id: string;
  lastEventSeq: number;
  metadata: Metadata;
  mode: "chat" | "once";
  model: SessionModel;
  object: "session";
  pendingInput: PendingInput | null;
  queuedMessages: number;
  reply: string | null;
  replyJson: ReplyValue;
  skillsWithheld: string[];
  spaceId: string;
  startedAt: string | null;
  status: SessionStatus;
  statusReason: string | null;
  title: string | null;
  toolsWithheld: WithheldTool[];
  trigger: SessionTrigger;
  turn: SessionTurn;
  updatedAt: string;
  usage: SessionUsage;
}

export interface SessionAttachment {
  createdAt: string;
  id: string;
  messageId: string;
  mimeType: string;
  name: string;
  sha256: string;
  size: number;
}

export interface SessionAttachmentList {
  data: SessionAttachment[];
}

export interface SessionCompactedEvent {
  createdAt: string;
  creditsMicro: number;
  fromStep: number;
  fromTurn: number;
  receiptId: string;
  seq: number;
  text: string;
  tokensAfter: number;
  tokensBefore: number;
  turn: number;
  type: "session.compacted";
  used: boolean;
}

export interface SessionCreatedEvent {
  agentId: string;
  agentVersion: number;
  createdAt: string;
  mode: "chat" | "once";
  seq: number;
  sessionId: string;
  type: "session.created";
}

export interface SessionErrorEvent {
  code: string;
  createdAt: string;
  message: string;
  retryable: boolean;
  seq: number;
  turn: number;
  type: "error";
}

export type SessionEvent = SessionCreatedEvent | SessionUpgradedEvent | SessionCompactedEvent | ReplyRejectedEvent | SessionStatusEvent | TurnEvent | MessageEvent | MessageDeltaEvent | StepEvent | ToolEvent | DriveEvent | InputEvent | ToolsWithheldEvent | SessionErrorEvent | PersonRequestedEvent;

export interface SessionEventList {
  data: SessionEvent[];
  hasMore: boolean;
  lastSeq: number;
}

export interface SessionFailure {
  code: string;
  message: string;
  retryable: boolean;
}

export interface SessionList {
  data: Session[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface SessionModel {
  fallback: boolean;
  requested: string;
  served: string | null;
}

export type SessionStatus = "queued" | "running" | "completed" | "waiting_for_input" | "failed" | "cancelled";

export interface SessionStatusEvent {
  createdAt: string;
  seq: number;
  status: SessionStatus;
  statusReason?: string;
  turn: number;
  type: "session.status";
}

export interface SessionStep {
  calls: StepCall[];
  createdAt: string;
  id: string;
  input: StepInput[];
  reasoningSegments: number;
  receipt: Receipt | null;
  request: StepRequest | null;
  step: number;
  stop: string | null;
  text: string;
  turn: number;
}

export interface SessionTrigger {
  id: string | null;
  type: "api" | "schedule" | "embed" | "hook" | "responses" | "mcp" | "agui" | "test";
}

export interface SessionTurn {
  attempt: number;
  deadlineAt: string | null;
  finishedAt: string | null;
  id: string;
  number: number;
  startedAt: string | null;
}

export interface SessionUpgradedEvent {
  agentVersion: number;
  createdAt: string;
  seq: number;
  type: "session.upgraded";
}

export interface SessionUsage {
  creditsMicro: number;
  inputTokens: number;
  outputTokens: number;
  steps: number;
  toolCalls: number;
  totalTokens: number;
}

export interface SetAgentTool {
  allow?: string[];
  approval?: "always" | "never" | null;
  connectionId?: string;
  description?: string;
  effects?: "read" | "idempotent" | "once" | null;
  name?: string;
  onTimeout?: "tell_model" | "fail" | null;
  parameters?: ToolParameters;
  stricter?: StricterTool[];
  timeoutSeconds?: number | null;
  type: "client" | "connection" | "drive";
  visitors?: "no" | "yes" | null;
}

export interface SetConfigDraft {
  settings: ManagedSettings;
}

export type SetConnectionLimits = {
  callsPerMinute?: number | null;
  maxConcurrent?: number | null;
  maxResultBytes?: number | null;
  timeoutSeconds?: number | null;
} | null;

export interface SetFeedback {
  comment?: string | null;
  rating: "up" | "down";
}

export interface SetMemoryNote {
  externalUserId: string;
  name: string;
  text: string;
}

export interface SetSecretValue {
  expiresAt?: string | null;
  value: string;
}

export type SetTurnLimits = {
  maxCreditsMicro?: number | null;
  maxSteps?: number | null;
  timeoutSeconds?: number | null;
} | null;

export interface SignInLink {
  expiresAt: string;
  id: string;
  link: string;
  mailed: boolean;
  notMailed?: "no_mail_server" | "no_public_url" | "no_secrets_key" | "mail_limit";
}

export interface Skill {
  allowedTools: string | null;
  compatibility: string | null;
  description: string | null;
  digest: string | null;
  errors: string[];
  files: SkillFile[];
  license: string | null;
  metadata: Record<string, string>;
  name: string;
  source: string | null;
  state: "active" | "changed" | "missing" | "new" | "invalid";
  used: boolean;
  warnings: string[];
}

export interface SkillFile {
  change: "added" | "changed" | "removed" | null;
  digest: string | null;
  path: string;
  reviewedDigest: string | null;
  reviewedText?: string | null;
  size: number;
  text?: string | null;
}

export interface SkillList {
  data: Skill[];
  maxTokens: number;
  tokens: number;
}

export interface Source {
  fromLine: number | null;
  path: string;
  place: string | null;
  sha256: string;
  toLine: number | null;
  turn: number;
  via: "context" | "read" | "search";
}

export interface SourceList {
  data: Source[];
}

export interface Space {
  createdAt: string;
  description: string | null;
  externalId: string | null;
  id: string;
  metadata: Metadata;
  name: string;
  updatedAt: string;
}

export interface SpaceList {
  data: Space[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface Statement {
  accountId: string;
  accountName: string;
  chargedMicro: number;
  charges: StatementCharge[];
  closingMicro: number;
  final: boolean;
  from: string;
  grantedMicro: number;
  grants: StatementGrants[];
  month: string;
  openingMicro: number;
  to: string;
  withdrawals: StatementGrants[];
  withdrawnMicro: number;
}

export interface StatementCharge {
  amountMicro: number;
  calls: number;
  day?: string;
  inputTokens: number;
  model: string;
  outputTokens: number;
}

export interface StatementGrants {
  amountMicro: number;
  count: number;
  kind: string;
}

export interface StatementList {
  data: Statement[];
  hasMore: boolean;
  nextCursor: string | null;
  totals?: StatementCharge[];
  uncharged?: number;
}

export interface StepCall {
  arguments: string;
  callId: string;
  name: string;
}

export interface StepEvent {
  createdAt: string;
  creditsMicro?: number;
  model: string;
  seq: number;
  step: number;
  stepId: string;
  stop?: string;
  turn: number;
  type: "step.started" | "step.completed";
  usage?: StepUsage;
}

export interface StepInput {
  callId: string | null;
  isError: boolean;
  name: string | null;
  role: "user" | "tool";
  text: string;
  truncated: boolean;
}

export interface StepRequest {
  differs: ("tools" | "instructions" | "files" | "summary")[];
  exact: boolean;
  note: string | null;
  parts: RequestPart[];
}

export interface StepUsage {
  inputTokens: number;
  outputTokens: number;
  totalTokens: number;
}

export interface StricterTool {
  approval?: "always" | "never";
  effects?: "read" | "idempotent" | "once";
  name: string;
  onUnknown?: "tell_model" | "fail";
}

export interface SummaryText {
  text: string;
  type: "summary_text";
}

export interface TaskCounters {
  cancelled: number;
  completed: number;
  consecutiveFailures: number;
  failed: number;
  skipped: number;
  started: number;
}

export interface TaskRun {
  createdAt: string;
  creditsMicro?: number | null;
  delaySeconds: number | null;
  error?: SessionFailure | null;
  finishedAt: string | null;
  id: string;
  instants: number;
  object: "task_run";
  scheduledFor: string;
  sessionId: string | null;
  skipReason: string | null;
  startedAt: string | null;
  status: "queued" | "running" | "waiting_for_input" | "completed" | "failed" | "cancelled" | "skipped";
  taskId: string;
  throughScheduledFor: string | null;
  trigger: "schedule" | "catch_up" | "manual";
  turn: number | null;
  waitingFor: "overlap" | "capacity" | null;
}

export interface TaskRunList {
  data: TaskRun[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface TestConfigDraft {
  provider: string;
}

export interface TestConnectionTool {
  arguments?: Record<string, unknown> | null;
  confirm?: boolean | null;
  name: string;
}

export interface TestDifference {
  creditsMicro: number;
  milliseconds: number;
  passed: number;
}

export interface TestOutcome {
  creditsMicro: number;
  milliseconds: number;
  reasons: string[];
  reply: string | null;
  sessionId: string | null;
  status: string;
  verdict: "pass" | "fail" | "error" | null;
}

export interface TestQuestion {
  absent?: string[] | null;
  facts?: string[] | null;
  message: string;
  replySchema?: TestReplySchema;
}

export type TestReplySchema = Record<string, unknown> | null;

export interface TestResult {
  candidate: TestOutcome | null;
  current: TestOutcome;
  message: string;
  question: number;
}

export interface TestRun {
  agentId: string;
  candidate: TestSide | null;
  createdAt: string;
  current: TestSide;
  difference: TestDifference | null;
  finishedAt: string | null;
  id: string;
  maxCreditsMicro: number;
  object: "test_run";
  results?: TestResult[];
  status: string;
  statusReason: string | null;
  testSetId: string;
}

export interface TestRunList {
  data: TestRun[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface TestSet {
  agentId: string;
  createdAt: string;
  id: string;
  name: string;
  object: "test_set";
  questionCount: number;
  questions?: TestQuestion[];
  updatedAt: string;
}

export interface TestSetList {
  data: TestSet[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface TestSide {
  creditsMicro: number;
  draft: boolean;
  errors: number;
  failed: number;
  milliseconds: number;
  open: number;
  passed: number;
  questions: number;
  version: number;
}

export interface TextToolFormat {
  type: "text";
}

export type ToolArguments = Record<string, unknown>;

export type ToolArgumentsValue = unknown;

export interface ToolCallApproval {
  at: string;
  by: string | null;
  comment: string | null;
  decision: "approve" | "reject" | "expired" | "remembered";
}

export interface ToolCallConfirmation {
  at: string;
  decision: "approve" | "reject" | "expired";
  embedId: string | null;
}

export interface ToolCallList {
  data: AgentToolCall[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface ToolCallResolution {
  at: string;
  by: string;
  note: string | null;
  outcome: "done" | "not_done";
}

export interface ToolChoice {
  mode?: "auto" | "required" | null;
  name?: string | null;
  namespace?: string | null;
  tools?: ({
    name: string;
    namespace?: string | null;
    type: "function" | "custom";
  } | VendorTool)[] | null;
  type: "function" | "custom" | "allowed_tools" | "apply_patch" | "shell" | "local_shell" | "computer" | "computer_use_preview" | "tool_search";
}

export interface ToolConfirmation {
  fields: ToolConfirmationField[];
  previousOutcome?: "unknown";
  title: string;
}

export interface ToolConfirmationField {
  cut?: boolean;
  name: string;
  value: string;
}

export interface ToolDecision {
  callId: string;
  comment?: string | null;
  decision: "approve" | "reject";
  remember?: "no" | "session" | null;
}

export interface ToolEvent {
  arguments?: string;
  attempt?: number;
  bytes?: number;
  callId: string;
  connectionId?: string;
  createdAt: string;
  durationMs?: number;
  effects?: "read" | "idempotent" | "once";
  isError?: boolean;
  name: string;
  outcome?: string;
  seq: number;
  stepId: string;
  toolCallId?: string;
  type: "tool.called" | "tool.completed";
}

export interface ToolOutput {
  callId: string;
  isError?: boolean | null;
  output: ToolOutputValue;
}

export type ToolOutputValue = unknown;

export type ToolParameters = Record<string, unknown>;

export interface ToolsWithheldEvent {
  createdAt: string;
  seq: number;
  tools: WithheldTool[];
  turn: number;
  type: "tools.withheld";
}

export interface Turn {
  attempt: number;
  createdAt: string;
  creditsMicro: number;
  deadlineAt: string | null;
  error: SessionFailure | null;
  finishedAt: string | null;
  id: string;
  messageId: string;
  number: number;
  retryOf: number | null;
  startedAt: string | null;
  status: SessionStatus;
  statusReason: string | null;
}

export interface TurnEvent {
  attempt: number;
  createdAt: string;
  deadlineAt: string;
  seq: number;
  turn: number;
  turnId: string;
  type: "turn.started" | "turn.recovered";
}

export interface TurnLimits {
  maxCreditsMicro: number | null;
  maxSteps: number | null;
  timeoutSeconds: number | null;
}

export interface TurnList {
  data: Turn[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface Unhealthy {
  status: "draining" | "unavailable";
  timestamp: string;
}

export interface UnservedCalls {
  day: number;
  hour: number;
}

export interface UpdateAccount {
  email?: string | null;
  name?: string;
  plan?: string;
  suspended?: boolean;
}

export interface UpdateAgent {
  compactAt?: number | null;
  description?: string | null;
  driveAccess?: "read_only" | "read_write" | null;
  embedEnabled?: boolean | null;
  expose?: ("responses" | "mcp" | "agui" | "skills")[] | null;
  externalId?: string | null;
  instructions?: string;
  limits?: SetTurnLimits;
  memory?: "none" | "user" | null;
  metadata?: Record<string, string | null> | null;
  model?: string | null;
  name?: string;
  reasoning?: AgentReasoning;
  replySchema?: ReplySchema;
  spaceId?: string;
  tables?: boolean | null;
  temperature?: number | null;
  timezone?: string | null;
  toolSearch?: boolean | null;
  tools?: SetAgentTool[] | null;
  visitorDrive?: "none" | "read" | "write" | null;
}

export interface UpdateBudget {
  atCap?: "shorten" | "refuse" | null;
  limitMicro?: number;
  notifyAt?: number[] | null;
}

export interface UpdateConnection {
  auth?: ConnectionAuth;
  credentialsPerSession?: "off" | "optional" | "required" | null;
  document?: string | null;
  documentUrl?: string | null;
  enabled?: boolean | null;
  filter?: ConnectionFilter;
  headers?: Record<string, string> | null;
  limits?: SetConnectionLimits;
  metadata?: Record<string, string | null> | null;
  onChange?: "block" | "keep" | null;
  operations?: ConnectionOperation[] | null;
  sessions?: "turn" | "session" | null;
  url?: string;
}

export interface UpdateEmbedTag {
  accentColor?: string | null;
  allowedOrigins?: string[] | null;
  attachments?: EmbedAttachments;
  chatsPerDay?: number | null;
  contact?: boolean | null;
  credentials?: Record<string, string> | null;
  enabled?: boolean | null;
  feedback?: boolean | null;
  greeting?: string | null;
  language?: "auto" | "en" | "de" | "fr" | "es" | null;
  logo?: string | null;
  maxCreditsMicro?: number | null;
  position?: "right" | "left" | null;
  starters?: string[] | null;
  theme?: "auto" | "light" | "dark" | null;
  title?: string | null;
}

export interface UpdateHook {
  enabled?: boolean | null;
  eventId?: string | null;
  externalId?: string | null;
  externalUserId?: string | null;
  maxCreditsMicroPerTurn?: number | null;
  message?: string | null;
  mode?: "once" | "chat" | null;
  name?: string;
  networks?: string[] | null;
  turnsPerDay?: number | null;
}

export interface UpdateKey {
  expiresAt?: string | null;
  maxCreditsMicroPerDay?: number | null;
  models?: string[] | null;
  name?: string;
  networks?: string[] | null;
  requestsPerMinute?: number | null;
  requireEndUser?: boolean | null;
  scopes?: ("responses" | "agents:read" | "agents:write" | "sessions:read" | "sessions:write" | "drive:read" | "drive:write" | "schedules:read" | "schedules:write" | "embeds:write" | "approvals:write" | "webhooks:read" | "webhooks:write" | "connections:read" | "connections:write" | "secrets:write" | "keys:write" | "usage:read" | "account:read" | "account:write" | "operator:read" | "operator:billing" | "operator" | "*")[];
}

export interface UpdateMember {
  operatorRole?: "admin" | "support" | "billing" | null;
  role?: "owner" | "member" | "viewer";
}

export interface UpdateScheduledTask {
  catchUpWindowSeconds?: number | null;
  credentials?: Record<string, string> | null;
  enabled?: boolean | null;
  endAt?: string | null;
  maxCreditsMicroPerRun?: number | null;
  maxRuns?: number | null;
  message?: string;
  missedRunPolicy?: "run_latest" | "skip" | "run_all" | null;
  mode?: "chat" | "once" | null;
  name?: string;
  overlapPolicy?: "skip" | "queue" | "allow" | null;
  pauseAfterFailures?: number | null;
  schedule?: Schedule;
  sessionPolicy?: "new" | "reuse" | null;
  startAt?: string | null;
}

export interface UpdateSession {
  metadata?: Record<string, string | null> | null;
  title?: string | null;
}

export interface UpdateSpace {
  description?: string | null;
  externalId?: string | null;
  metadata?: Record<string, string | null> | null;
  name?: string;
}

export interface UpdateTestSet {
  name?: string;
  questions?: TestQuestion[];
}

export interface UpdateWebhook {
  creditsLowMicro?: number | null;
  description?: string | null;
  enabled?: boolean | null;
  events?: ("*" | "session.completed" | "session.failed" | "session.cancelled" | "session.waiting_for_input" | "scheduled_task.run_finished" | "scheduled_task.run_skipped" | "scheduled_task.paused" | "credits.low" | "credits.exhausted" | "key.expiring" | "key.pause_soon" | "connection.needs_authorization" | "tool_call.unknown" | "attachment.created" | "message.feedback" | "chat.person_requested" | "audit.anchor" | "audit.recorded" | "budget.threshold" | "webhook.failing" | "webhook.disabled" | "connection.review_needed" | "provider.down" | "provider.up" | "errors.high" | "account.balance_low" | "node.lost" | "config.refused")[] | null;
  spaceIds?: string[] | null;
  url?: string | null;
}

export interface Upload {
  expiresAt: string;
  id: string;
  mimeType: string;
  name: string;
  object: "upload";
  sha256: string;
  size: number;
  textStatus: "ready" | "partial" | "pending" | "none" | "empty" | "encrypted" | "broken" | "timeout" | "unsupported" | "failed" | "unknown_encoding";
}

export interface UsageReport {
  data: UsageRow[];
  from: string;
  groupBy: string[];
  timeZone?: string;
  timezone?: string;
  to: string;
  totals: UsageSums;
}

export interface UsageRow {
  accountId?: string;
  accountName?: string;
  agentId?: string | null;
  agentName?: string;
  cachedInputTokens: number;
  calls: number;
  creditsMicro: number;
  day?: string;
  endUser?: string | null;
  estimatedCalls?: number | null;
  failedCalls?: number | null;
  inputTokens: number;
  keyId?: string;
  keyName?: string;
  memberId?: string | null;
  memberName?: string;
  model?: string;
  outputTokens: number;
  provider?: string;
  savedMicro: number;
  sessionId?: string | null;
  spaceId?: string | null;
  spaceName?: string;
  totalTokens: number;
}

export interface UsageSums {
  cachedInputTokens: number;
  calls: number;
  creditsMicro: number;
  inputTokens: number;
  outputTokens: number;
  savedMicro: number;
  totalTokens: number;
}

export interface User {
  createdAt: string;
  credits: {
    availableMicro: number;
    heldMicro: number;
  };
  defaultSpaceId: string | null;
  email: string | null;
  id: string;
  key: KeyOfCaller;
  name: string;
  plan: Plan;
}

export interface VendorTool {
  type: "apply_patch" | "shell" | "local_shell" | "computer" | "computer_use_preview" | "tool_search";
}

export type VisitorAttachments = {
  accept?: string;
  maxBytes: number;
  maxFiles: number;
  types: ("image" | "pdf" | "text" | "document")[];
} | null;

export interface VisitorFeedback {
  comment: string | null;
  rating: "up" | "down";
}

export interface Webhook {
  createdAt: string;
  creditsLowMicro: number;
  description: string | null;
  disabledReason: string | null;
  events: string[];
  failedDeliveries: number;
  failingSince: string | null;
  id: string;
  lastSuccessAt: string | null;
  object: "webhook";
  scope: string;
  spaceIds: string[];
  status: string;
  updatedAt: string;
  url: string | null;
}

export interface WebhookList {
  data: Webhook[];
  hasMore: boolean;
  nextCursor: string | null;
}

export interface WebhookRecovery {
  object: "webhook.recovery";
  recovered: number;
}

export interface WebhookWithSecret {
  createdAt: string;
  creditsLowMicro: number;
  description: string | null;
  disabledReason: string | null;
  events: string[];
  failedDeliveries: number;
  failingSince: string | null;
  id: string;
  lastSuccessAt: string | null;
  object: "webhook";
  previousEndsAt?: string | null;
  scope: string;
  secret: string;
  spaceIds: string[];
  status: string;
  updatedAt: string;
  url: string | null;
}

export interface Withdrawal {
  accountId: string;
  amountMicro: number;
  createdAt: string;
  externalRef: string;
  id: string;
  owedMicro: number;
  reason: string | null;
  takenMicro: number;
}

export interface WithheldTool {
  reason: string;
  tool: string;
}

export interface WriteDriveFile {
  content: string;
  encoding?: "utf-8" | "base64" | null;
  mimeType?: string | null;
  path: string;
  textEncoding?: string | null;
}

export interface WrittenDriveFile {
  agentId: string;
  createdAt: string;
  id: string;
  lines: number | null;
  mimeType: string;
  outcome: "created" | "replaced" | "unchanged" | "moved";
  pages: number | null;
  path: string;
  sha256: string;
  size: number;
  text: boolean;
  textEncoding: string | null;
  textNote: string | null;
  textStatus: "ready" | "partial" | "pending" | "none" | "empty" | "encrypted" | "broken" | "timeout" | "unsupported" | "failed" | "unknown_encoding";
  updatedAt: string;
  version: number;
}
