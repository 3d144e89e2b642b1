// The first example of the README in Firefox: `node firefox.mjs ADDRESS EXECUTABLE PICTURE`.
// Puppeteer drives the browser as it is installed (WebDriver BiDi); Playwright needs a Firefox of its own.
import assert from "node:assert/strict";
import puppeteer from "puppeteer-core";

const [address, executablePath, picture] = process.argv.slice(2);
const CHARTS = 1;
const DRAWN = { timeout: 120_000 };

const browser = await puppeteer.launch({ browser: "firefox", executablePath, headless: true });
try {
	const page = await browser.newPage();
	await page.setViewport({ width: 1280, height: 1400 });
	await page.goto(address);
	await page.waitForFunction(() => {
		const shown = globalThis.jupyterapp?.shell?.currentWidget;
		return shown?.sessionContext?.session?.kernel?.status === "idle";
	}, DRAWN);
	await page.evaluate(async () => {
		await jupyterapp.commands.execute("notebook:run-all-cells");
	});

	const charts = ".js-plotly-plot .main-svg:first-child";
	await page.waitForFunction(
		(chart, least) => document.querySelectorAll(chart).length >= least,
		DRAWN,
		charts,
		CHARTS,
	);
	const failed = await page.$$eval(".hta-figures", (all) =>
		all.filter((each) => each.textContent.includes("cannot")).map((each) => each.textContent),
	);
	assert.deepEqual(failed, []);

	const panel = (await page.$$(".hta-panel")).at(-1);
	await panel.evaluate((element) => element.scrollIntoView({ block: "start" }));
	const bars = () =>
		panel.evaluate(
			(element) =>
				element.querySelectorAll(".hta-figure")[1]?.querySelectorAll(".bars .point").length ?? 0,
		);
	const differs = async (before) => {
		for (let tries = 0; tries < 100; tries++) {
			if ((await bars()) !== before) return;
			await new Promise((resolve) => setTimeout(resolve, 100));
		}
		assert.fail(`still ${before} bars`);
	};
	const python = (code) =>
		page.evaluate(async (expression) => {
			const { kernel } = jupyterapp.shell.currentWidget.sessionContext.session;
			const request = { code: "", silent: true, user_expressions: { value: expression } };
			const reply = await kernel.requestExecute(request).done;
			return reply.content.user_expressions.value.data["text/plain"];
		}, code);

	await differs(0);
	let before = await bars();
	const slider = await panel.$("input[type=range]");
	const box = await slider.boundingBox();
	const middle = box.y + box.height / 2;
	const share = await slider.evaluate((each) => (each.value - each.min) / (each.max - each.min));
	await page.mouse.move(box.x + 8 + share * (box.width - 16), middle);
	await page.mouse.down();
	await page.mouse.move(box.x + 1, middle, { steps: 6 });
	await page.mouse.up();
	await differs(before);
	assert.equal(await python("panel.num_kernels"), "1");

	before = await bars();
	await slider.focus();
	await page.keyboard.press("PageUp");
	await differs(before);
	assert.notEqual(await python("panel.num_kernels"), "1");

	const picker = await panel.$(".hta-open");
	await picker.click();
	const first = await panel.waitForSelector("[role=listbox] input, [type=checkbox]", DRAWN);
	await first.click();
	await page.keyboard.press("Escape");
	for (let tries = 0; (await python("board.selection.ranks")) === "()" && tries < 100; tries++) {
		await new Promise((resolve) => setTimeout(resolve, 100));
	}
	assert.notEqual(await python("board.selection.ranks"), "()");
	const words = (await page.$$eval(".hta-open", (all) => all.map((each) => each.textContent))).filter(
		(each) => each.includes("rank"),
	);
	assert.equal(new Set(words).size, 1, words.join());

	await page.evaluate(() =>
		jupyterapp.commands.execute("apputils:change-theme", { theme: "JupyterLab Dark" }),
	);
	await page.waitForFunction(() => document.body.dataset.jpThemeLight === "false");
	await new Promise((resolve) => setTimeout(resolve, 500));
	const scheme = await panel.evaluate((element) => getComputedStyle(element).colorScheme);
	assert.equal(scheme, "dark");
	if (picture) await page.screenshot({ path: picture });
	console.log(await browser.version(), "draws, moves, answers keys, links cells, and is dark");
} finally {
	await browser.close();
}
