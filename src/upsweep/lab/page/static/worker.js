// Python in a thread of its own: CPython as WebAssembly, out of the parts that the page brings along. It fetches nothing.
let started = null;
onmessage = async ({ data: { id, name, given, parts } }) => {
  try {
    started ??= start(parts);
    postMessage({ id, answer: (await started)(name, given) });
  } catch (problem) {
    postMessage({ id, answer: JSON.stringify({ error: `${problem}` }) });
  }
};

async function start(parts) {
  // A page that is a file may not start a module's thread, and Pyodide takes a thread that could import scripts for no module.
  self.importScripts = () => { throw new Error("this page has no scripts but its own"); };
  const unpacked = async (part) => {
    const stream = new Blob([Uint8Array.from(atob(parts[part]), (c) => c.charCodeAt(0))]).stream();
    return new Uint8Array(await new Response(stream.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
  };
  const script = async (part) => import(URL.createObjectURL(new Blob([await unpacked(part)], { type: "text/javascript" })));
  self.fetch = async (address) => {
    const part = String(address).split("/").pop();
    if (!(part in parts)) throw new Error(`this page has no network, and no ${address}`);
    return new Response(await unpacked(part), { headers: { "Content-Type": part.endsWith(".wasm") ? "application/wasm" : "application/octet-stream" } });
  };
  const [{ loadPyodide }, { default: createPyodideModule }] = await Promise.all(["pyodide.mjs", "pyodide.asm.mjs"].map(script));
  const lockFileContents = new TextDecoder().decode(await unpacked("pyodide-lock.json"));
  const pyodide = await loadPyodide({ indexURL: "file:///page/", packageBaseUrl: "file:///page/", lockFileContents, createPyodideModule });
  pyodide.unpackArchive(await unpacked("lab.zip"), "zip", { extractDir: "/lab" });
  pyodide.runPython("import sys; sys.path.insert(0, '/lab'); from upsweep.lab.page.answers import answer");
  return pyodide.globals.get("answer");
}
