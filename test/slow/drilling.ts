import { expect } from "vitest";
import type { EachCompany } from "../support/rollcall/company.ts";

/** The numbers of the people. */
export const numbers = Array.from({ length: 200 }, (_, index) => index + 1);

/** With all numbers 200 people, 196 of them active: all of them staff, every second one an engineer. */
export const peopleOf = (some: readonly number[]): string =>
  [
    "id,login,name,mail,status,groups",
    ...some.map((n) => {
      const login = `u${String(n).padStart(3, "0")}`;
      const status = n % 50 === 0 ? "left" : "active";
      return `${n},${login},User ${n},${login}@example.com,${status},${n % 2 === 0 ? "staff;engines" : "staff"}`;
    }),
    "",
  ].join("\n");

interface Finding {
  readonly incident: string;
  readonly verdict: string;
  readonly injected?: string;
  readonly because: readonly string[];
  readonly changed: number;
  readonly advice?: string;
  readonly counts?: { readonly users: { readonly delete: number } };
}

/** What the drill of the sync found, by incident: the last one of each. */
export async function drilled(
  { command }: Pick<EachCompany, "command">,
  ...args: readonly string[]
): Promise<{
  readonly code: number | null;
  readonly findings: readonly Finding[];
  readonly found: Readonly<Record<string, Finding>>;
}> {
  const { code, stdout, stderr } = await command("drill", "staff", "--json", ...args);
  const [drill] = JSON.parse(stdout).drills;
  expect(drill.error, stderr).toBeUndefined();
  const findings = drill.findings as readonly Finding[];
  return { code, findings, found: Object.fromEntries(findings.map((finding) => [finding.incident, finding])) };
}
