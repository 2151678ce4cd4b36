import { openDuckDbEngine } from "#service/engine/duckdb.ts";
import { engineSuite } from "./suite.ts";

engineSuite("DuckDB", async (folder) => openDuckDbEngine({ folder, memory: 512 * 2 ** 20 }));
