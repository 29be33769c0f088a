// A text that does not fit ends with an ellipsis; under the pointer the whole of it is told.

const told = new WeakSet<Element>() // elements whose title is of here

/** tellWhole gives whatever is cut by an ellipsis a title with its whole text as the pointer comes to it, unless it has one. */
export function tellWhole(page: Document): void {
  page.addEventListener("pointerover", (e) => {
    for (let el = e.target as Element | null; el && el !== page.documentElement; el = el.parentElement) {
      if (el.hasAttribute("title") && !told.has(el)) return
      if (!(el instanceof HTMLElement) || getComputedStyle(el).textOverflow !== "ellipsis") continue
      const cut = (el.scrollWidth > el.clientWidth || el.scrollHeight > el.clientHeight + 1) && !el.querySelector("[title]")
      if (cut) told.add(el)
      if (cut) el.title = el.innerText.trim()
      else if (told.has(el)) el.removeAttribute("title")
      return
    }
  }, { passive: true })
}
