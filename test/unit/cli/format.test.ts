import { afterEach, describe, expect, test, vi } from "vitest";
import { layOut, renderTable } from "#cli/format.ts";
import { exactly, forCaller, useLocalTime } from "#times.ts";

describe("a table that is wider than the terminal", () => {
  const columns = ["run", "state", "why", "note"];
  const rows = [["20261121-101235-4f9c2e", "pending", "demand, by ada (command line)", "expires in 23 hours"]];
  const fitting = { flexible: [2, 3], expendable: [2] };
  const shown = (room: number): string[] => {
    const lines = [...renderTable(columns, rows, { layout: layOut(columns, rows, { ...fitting, room }) })];
    return lines.join("").trimEnd().split("\n");
  };

  test("has its texts cut, the longest first, then columns left out; what matters stays", () => {
    expect(shown(200)[2]).toBe("20261121-101235-4f9c2e  pending  demand, by ada (command line)  expires in 23 hours");
    expect(shown(70)[2]).toBe("20261121-101235-4f9c2e  pending  demand, by ada (…  expires in 23 hou…");
    expect(shown(50)).toEqual([
      "run                     state    note",
      "----------------------  -------  -----------------",
      "20261121-101235-4f9c2e  pending  expires in 23 ho…",
    ]);
  });

  test("never takes more room than there is, while something can be cut or left out", () => {
    for (let room = 41; room < 90; room++)
      for (const line of shown(room)) expect(line.length).toBeLessThanOrEqual(room);
  });
});

describe("a moment", () => {
  afterEach(() => {
    useLocalTime(false);
    vi.unstubAllEnvs();
  });

  test.each([
    ["Europe/Berlin", "2026-11-21 11:12:35+01:00"],
    ["America/St_Johns", "2026-11-21 06:42:35-03:30"],
    ["UTC", "2026-11-21 10:12:35Z"],
  ])("is shown in the time of %s at a terminal, and in UTC elsewhere", (zone, local) => {
    vi.stubEnv("TZ", zone);
    const said = 'pending until 2026-11-21T10:12:35.123Z; entry.since is "2026-11-21T10:12:35Z"';
    expect(exactly("2026-11-21T10:12:35.123Z")).toBe("2026-11-21 10:12:35Z");
    expect(forCaller(said)).toBe(said);
    useLocalTime(true);
    expect(exactly("2026-11-21T10:12:35.123Z")).toBe(local);
    expect(forCaller(said)).toBe(`pending until ${local}; entry.since is "2026-11-21T10:12:35Z"`);
  });
});
