import { draw } from "./draw.ts";

/** A chart to draw, and the answer: the drawing, or why there is none. */
export interface ToDraw {
  readonly id: number;
  /** Vega-Lite's. */
  readonly spec: object;
}
export type Drawn = { readonly id: number } & ({ readonly svg: string } | { readonly error: string });

/*
 * The process that draws charts; `renderer.ts` starts it. It ends with the one that started it.
 */
process.once("disconnect", () => process.exit(0));
// A terminal or an init system tells every process of a group. Whoever started it ends it.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);

process.on("message", ({ id, spec }: ToDraw) => {
  void answer(id, spec);
});

async function answer(id: number, spec: object): Promise<void> {
  let drawn: Drawn;
  try {
    drawn = { id, svg: await draw(spec) };
  } catch (error) {
    drawn = { id, error: error instanceof Error ? error.message : String(error) };
  }
  process.send?.(drawn);
}
