import type { Scanned } from "./scan.ts";

/** A chunk of a cycle that has arrived. */
export interface Chunk {
  /** What its file is called: it says the two fields below. */
  readonly file: string;
  /** The place in the order in which uploads began. */
  readonly arrival: number;
  /** What the client called it (A.8). */
  readonly id?: string;
  /** In bytes. */
  readonly size: number;
  /** When it was complete, in epoch milliseconds. */
  readonly complete: number;
  /** What was seen of it when it arrived. Of one that an earlier process received, nothing is known. */
  readonly scanned?: Scanned;
}

/** The longest id of a chunk, in bytes: it is a part of a file's name. */
export const longestId = 100;

export function fileNameOf(arrival: number, id: string | undefined): string {
  const place = String(arrival).padStart(12, "0");
  return id === undefined ? place : `${place}-${Buffer.from(id, "latin1").toString("hex")}`;
}

/** The chunk in a file. Undefined: the file is no chunk. */
export function chunkOf(file: string, size: number, complete: number): Chunk | undefined {
  const { arrival, id } = /^(?<arrival>\d{12,})(?:-(?<id>[0-9a-f]+))?$/.exec(file)?.groups ?? {};
  if (arrival === undefined) return undefined;
  return {
    file,
    arrival: Number(arrival),
    size,
    complete,
    ...(id === undefined ? {} : { id: Buffer.from(id, "hex").toString("latin1") }),
  };
}

/** The order of a cycle's rows: ids that are integers by value, then the others as they arrived (A.8). */
export function inOrder(chunks: Iterable<Chunk>): Chunk[] {
  return [...chunks].sort((a, b) => {
    const [first, second] = [integerOf(a.id), integerOf(b.id)];
    if (first !== undefined && second !== undefined && first !== second) return first < second ? -1 : 1;
    if ((first === undefined) !== (second === undefined)) return first === undefined ? 1 : -1;
    return a.arrival - b.arrival;
  });
}

function integerOf(id: string | undefined): bigint | undefined {
  return id !== undefined && /^-?\d+$/.test(id) ? BigInt(id) : undefined;
}
