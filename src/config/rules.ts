import type { ConfigurationDocument } from "./document.ts";
import type { Problem } from "./problem.ts";

export function checkSyncRules(_document: ConfigurationDocument): Problem[] {
  return [];
}
