import { parse, View } from "vega";
import { compile } from "vega-lite";
import type { TopLevelSpec } from "vega-lite";

/** Draws a chart as SVG. This is the only module that loads the library. @param spec Vega-Lite's */
export async function draw(spec: object): Promise<string> {
  const view = new View(parse(compile(spec as TopLevelSpec).spec), { renderer: "none" });
  try {
    return await view.toSVG();
  } finally {
    view.finalize();
  }
}
