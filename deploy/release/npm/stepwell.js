#!/usr/bin/env node
// Runs the program of the package for this system, with the same arguments, streams, signals and exit code.
"use strict";
const { spawn } = require("node:child_process");
const os = require("node:os");

const platform = `${process.platform}-${process.arch}`;
const file = process.platform === "win32" ? "stepwell.exe" : "stepwell";

let program;
try {
  program = require.resolve(`@stepwell/${platform}/bin/${file}`);
} catch {
  console.error(
    `stepwell: the package @stepwell/${platform} is not installed. ` +
      "Either there is no program for this system, or npm was told to leave out optional dependencies: install without --omit=optional.",
  );
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit", windowsHide: true });
const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"].filter((s) => s in os.constants.signals);
// A terminal sends Ctrl-C to the program itself as well: it must not get it twice.
for (const signal of signals) {
  process.on(signal, () => {
    if (!(signal === "SIGINT" && process.stdin.isTTY)) child.kill(signal);
  });
}
child.on("error", (err) => {
  console.error(`stepwell: ${program} does not start: ${err.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) {
    for (const s of signals) process.removeAllListeners(s);
    process.kill(process.pid, signal);
  } else {
    process.exit(code);
  }
});
