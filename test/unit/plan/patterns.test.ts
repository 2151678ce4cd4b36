import { expect, test } from "vitest";
import { matches, patternMatching } from "#plan/patterns.ts";
import { useConnection } from "../../support/duckdb.ts";

const connection = useConnection();
const [composed, decomposed] = ["Ren\u00E9", "Rene\u0301"];

test.each([composed, decomposed, `${composed}*`, `${decomposed}*`])(
  "where case does not matter, %j is a name in each of its Unicode forms",
  async (pattern) => {
    for (const name of [composed, decomposed, "RENE\u0301"]) {
      const condition = matches("name", [pattern], true);
      const found = await connection().rows(`SELECT true FROM (SELECT '${name}' AS name) WHERE ${condition}`);
      expect([found.length, patternMatching(name, [pattern], true)]).toEqual([1, pattern]);
    }
  },
);
