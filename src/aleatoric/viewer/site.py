"""From an address to its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aleatoric.viewer.answers import Answer, NotFoundError, document, moved, page
from aleatoric.viewer.library import Library, OpenRun
from aleatoric.viewer.links import Links
from aleatoric.viewer.pages import compare, contexts, item, overview, tokens
from aleatoric.viewer.pages.common import Data, Site, progress_data
from aleatoric.viewer.query import Params
from aleatoric.viewer.rendering import STATIC, Pages, static_files

RunPage = Callable[[Site, OpenRun, Params], Data]
RUN_PAGES: dict[str, tuple[str, RunPage]] = {
    "": ("overview", lambda site, run, _: overview.overview(site, run)),
    "contexts": ("contexts", contexts.contexts),
    "context": ("item", item.item),
    "tokens": ("tokens", tokens.tokens),
}
"""Last part of an address -> the template and what it shows."""
OF_ITEMS = ("contexts", "contexts.csv", "context")


class Answers:
    """Every page of the explorer."""

    def __init__(self, library: Library, token: str) -> None:
        self.site = Site(library, Links(token))
        self._pages = Pages({"links": self.site.links})
        self._static = static_files()

    def answer(self, parts: Sequence[str], params: Params) -> Answer:
        """The answer to an address behind the token; what is not there says so, in a page."""
        try:
            return self._find(list(parts), params)
        except NotFoundError as error:
            return self.problem(404, str(error))

    def problem(self, status: int, text: str) -> Answer:
        """A page that says what is wrong."""
        home = self.site.links.to()
        data = {"title": "Not there", "text": text, "home": home, "watch": None}
        return page(self._pages.render("problem", data), status)

    def _find(self, parts: list[str], params: Params) -> Answer:
        match parts:
            case []:
                return self._home()
            case ["static", name] if name in self._static:
                return Answer(STATIC[name], self._static[name], lasting=True)
            case ["compare"]:
                return self._page("compare", compare.compare(self.site, params))
            case ["compare.csv"]:
                return compare.compare_csv(self.site, params)
            case ["run", key]:
                return self._run(key, "", params)
            case ["run", key, what] if what:
                return self._run(key, what, params)
        raise NotFoundError("There is no such page.")

    def _home(self) -> Answer:
        runs = self.site.library.runs
        if len(runs) == 1:
            return moved(self.site.links.run(runs[0].key))
        return self._page("home", overview.home(self.site))

    def _run(self, key: str, what: str, params: Params) -> Answer:
        run = self.site.library.find(key)
        if run is None:
            raise NotFoundError("There is no such run.")
        if (what in OF_ITEMS) == (run.snapshot.level == "token") and what in (*OF_ITEMS, "tokens"):
            raise NotFoundError(f"A run of the {run.snapshot.level} level has no such page.")
        files: dict[str, Callable[[], Answer]] = {
            "contexts.csv": lambda: contexts.contexts_csv(self.site, run, params),
            "tokens.csv": lambda: tokens.tokens_csv(run, params),
            "progress.json": lambda: document(progress_data(run)),
        }
        if what in files:
            return files[what]()
        if what not in RUN_PAGES:
            raise NotFoundError("There is no such page.")
        template, build = RUN_PAGES[what]
        return self._page(template, build(self.site, run, params))

    def _page(self, template: str, data: Data) -> Answer:
        return page(self._pages.render(template, data))
