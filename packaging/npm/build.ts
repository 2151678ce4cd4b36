import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * Compiles `src` and `connectors` to `dist`, since Node strips no types below `node_modules`. `npm pack` runs it.
 * In `dist` the names that begin with `#` are those of the compiled files.
 */
const root = new URL("../../", import.meta.url);
rmSync(new URL("dist", root), { recursive: true, force: true });
execFileSync("tsc", ["--project", fileURLToPath(new URL("tsconfig.json", import.meta.url))], { stdio: "inherit" });
const names = { "#connectors/*.ts": "./connectors/*.js", "#*.ts": "./src/*.js" };
writeFileSync(new URL("dist/package.json", root), JSON.stringify({ type: "module", imports: names }));
