/** How many rows a load has. Their amounts add up to nothing, so a sum shows a load that is there in part. */
export const rowsPerLoad = 200;

const sumOfNumbers = (rowsPerLoad * (rowsPerLoad + 1)) / 2;

export const database = "d";

const columns = "client BIGINT NOT NULL, load BIGINT NOT NULL, number BIGINT NOT NULL, amount BIGINT NOT NULL";

/** The tables: one for each client, by turns with a key and without, and two that many load into. */
export function tablesFor(clients: number, engine: "duckdb" | "postgres"): string {
  const create = (name: string, more = ""): string => `CREATE TABLE IF NOT EXISTS d.${name} (${columns}${more});\n`;
  const own = Array.from({ length: clients }, (_, client) =>
    create(ownTable(client), isKeyed(client) ? ", PRIMARY KEY (number)" : ""),
  );
  const home = engine === "duckdb" ? "DATABASE" : "SCHEMA";
  return `CREATE ${home} IF NOT EXISTS d;\n${create("shared")}${create("replaced")}${own.join("")}`;
}

/** Whether a load replaces the rows of the one before, which have the same keys. */
export function isKeyed(client: number): boolean {
  return client % 2 === 1;
}

export function ownTable(client: number): string {
  return `own_${client}`;
}

/** Load `load` of a client, as CSV. */
export function rowsOf(client: number, load: number): string {
  const amount = (number: number): number => ((number * load) % 17) - 8;
  let total = 0;
  let text = "";
  for (let number = 1; number < rowsPerLoad; number++) {
    total += amount(number);
    text += `${client},${load},${number},${amount(number)}\n`;
  }
  return `${text}${client},${load},${rowsPerLoad},${-total}\n`;
}

const sums = `CAST(count(*) AS BIGINT) AS n, CAST(coalesce(sum(amount), 0) AS BIGINT) AS amount,
  CAST(coalesce(sum(number * load), 0) AS BIGINT) AS mixed, CAST(coalesce(max(load), 0) AS BIGINT) AS newest`;

/** The row of `ownQuery` when these loads are in the table, whole. */
export function sumsOf(loads: readonly number[]): readonly number[] {
  const total = loads.reduce((sum, load) => sum + load, 0);
  return [loads.length * rowsPerLoad, 0, total * sumOfNumbers, Math.max(0, ...loads)];
}

export const ownQuery = (client: number): string => `SELECT ${sums} FROM ${ownTable(client)}`;

/** A row for each client. */
export const sharedQuery = `SELECT client, ${sums} FROM shared GROUP BY client ORDER BY client`;

/** `[client, load]` of the one load that the table has: every load empties it first. */
export const replacedQuery = `SELECT CAST(coalesce(min(client), -1) AS BIGINT) AS client, CAST(coalesce(min(load), 0) AS BIGINT) AS first,
  CAST(coalesce(max(client), -1) AS BIGINT) AS other, ${sums} FROM replaced`;

/** Takes a while, so that whoever hangs up leaves work behind that must be stopped. */
const costlyQuery = "SELECT count(*) AS n FROM shared AS a, shared AS b WHERE a.number * b.number % 7 = 3";

export const pinboardId = "00000000-0000-4000-8000-000000000000";

export const visualizations = { shared: 1, replaced: 2, costly: 3, own: 100 } as const;

export function visualizationId(number: number): string {
  return `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
}

/** The pinboard with a visualization for each of these queries. */
export function pinboardFor(clients: number): string {
  const queries: [number, string][] = [
    [visualizations.shared, sharedQuery],
    [visualizations.replaced, replacedQuery],
    [visualizations.costly, costlyQuery],
    ...Array.from({ length: clients }, (_, client): [number, string] => [
      visualizations.own + client,
      ownQuery(client),
    ]),
  ];
  const listed = queries.map(([number, sql]) => {
    const name = `v${number}`;
    return { id: visualizationId(number), name, title: name, type: "TABLE", database, sql };
  });
  // JSON is YAML.
  return JSON.stringify({ id: pinboardId, name: "crowd", visualizations: listed });
}

/** Of the loads of one client into `shared`, how many the table has, from a row of `sharedQuery`. @throws when one is not whole */
export function loadsOf([, n = 0, amount = 0, mixed = 0, newest = 0]: readonly number[]): number {
  const isWhole = n === newest * rowsPerLoad && amount === 0 && mixed === ((newest * (newest + 1)) / 2) * sumOfNumbers;
  if (!isWhole) throw new Error(`loads 1 to ${newest} are not there, each once and whole`);
  return newest;
}

/** Of `replaced`, whose load it has: `[client, load]`, or nothing before the first. @throws when it is not one load, whole */
export function loadIn(row: readonly number[]): readonly [client: number, load: number] | undefined {
  const [client = 0, first = 0, other = 0, n = 0, amount = 0, mixed = 0, newest = 0] = row;
  if (n === 0) return undefined;
  const isWhole =
    client === other && first === newest && n === rowsPerLoad && amount === 0 && mixed === newest * sumOfNumbers;
  if (!isWhole) throw new Error("the table has not the rows of one load");
  return [client, newest];
}
