"""What a flow may say of the tools that run at the provider: the options that providers take."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
Domain = Annotated[str, Field(pattern=r"^[^\s:]+$")]
"""A domain without ``https://``, such as ``example.org``; some providers take a path behind it."""
Domains = Annotated[list[Domain], Field(min_length=1)]
"""At least one: providers take an empty list for none given, and then every domain is open."""


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class Location(_Options):
    """Where the person is that a search is for."""

    city: str | None = Field(None, description="The city.")
    region: str | None = Field(None, description="The region or state.")
    country: str | None = Field(None, description="The country, by its two letters.")
    timezone: str | None = Field(None, description="The time zone, such as Europe/Berlin.")


class _WebOptions(_Options):
    allowed_domains: Domains | None = Field(None, description="Only these domains.")
    blocked_domains: Domains | None = Field(None, description="None of these domains.")
    max_uses: Count | None = Field(None, description="So often in one answer.")


class WebSearchParams(_WebOptions):
    """What ``web_search`` takes. An option that the provider cannot keep to fails the request."""

    user_location: Location | None = Field(None, description="Where the person is that the search is for.")
    search_context_size: Literal["low", "medium", "high"] | None = Field(
        None, description="How much of the web is read for one answer."
    )
    external_web_access: bool | None = Field(
        None, description="false: only what the provider has in its index or cache."
    )


class WebFetchParams(_WebOptions):
    """What ``web_fetch`` takes. An option that the provider cannot keep to fails the request."""

    enable_citations: bool | None = Field(None, description="The answer says which passages it rests on.")
    max_content_tokens: Count | None = Field(None, description="So much of one page is read, in tokens.")


class CodeExecutionParams(_Options):
    """What ``code_execution`` takes."""

    files: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] | None = Field(
        None, description="Files that were uploaded to the provider, by the ids that it gave them."
    )


PROVIDED: dict[str, type[BaseModel]] = {
    "code_execution": CodeExecutionParams, "web_fetch": WebFetchParams, "web_search": WebSearchParams,
}  # fmt: skip
"""By the name of the tool."""
