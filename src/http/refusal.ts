// Former place, for callers that have not moved to redact.ts yet.
export { presentable } from "./redact.ts";
