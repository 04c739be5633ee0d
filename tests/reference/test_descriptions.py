"""Every field and parameter is explained. Fields that are not yet explained are in a list that can only get shorter."""

from stoa.description import openapi
from stoa.reference import page
from tests.reference.undescribed import LIST, undescribed

COMPLETE = ("Product", "Variant", "Stock", "Image", "Option", "Seo", "NewProduct", "ProductChanges", "NewVariant",
            "VariantChanges", "ProductBatch", "BatchItem", "Webhook", "NewWebhook", "WebhookChanges", "Delivery", "Attempt",
            "TestResult", "NewRedelivery", "Redelivery", "NewSecret", "Problem", "Fault", "PageMeta", "Event")  # fmt: skip


def test_a_new_field_has_a_description() -> None:
    new = sorted(set(undescribed()) - set(LIST.read_text().split()))
    assert new == [], "describe these fields: Annotated[..., Meta(description=...)]"


def test_a_field_that_has_a_description_leaves_the_list() -> None:
    described = sorted(set(LIST.read_text().split()) - set(undescribed()))
    assert described == [], "run: python -m tests.reference.undescribed"


def test_the_fields_of_products_and_webhooks_are_described() -> None:
    assert [field for field in undescribed() if field.partition(".")[0] in COMPLETE] == []


def test_a_body_describes_a_field_as_its_resource_does() -> None:
    schemas = openapi()["components"]["schemas"]
    shown = schemas["Product"]["properties"]["compare_at_price"]["description"]
    assert schemas["NewProduct"]["properties"]["compare_at_price"]["description"] == shown
    assert schemas["ProductChanges"]["properties"]["compare_at_price"]["description"] == shown


def test_every_parameter_has_a_description() -> None:
    for operation in page.document().operations:
        assert [each.name for each in operation.parameters if not each.description] == [], operation.operation_id
