"""The loaders of examples/ are what LangChain and LlamaIndex expect."""

from everypage import Everypage


def test_langchain_loads_a_document_per_page(calm, sample, example):
    from langchain_core.document_loaders import BaseLoader

    loader = example("langchain_loader").EverypageLoader(sample, client=Everypage(calm.url), pages="1-4")
    assert isinstance(loader, BaseLoader)
    documents = loader.load()
    assert [document.metadata["page"] for document in documents] == [1, 2, 3, 4]
    assert documents[3].metadata["text_source"] == "ai" and documents[0].page_content
    assert documents[0].metadata["source"] == str(sample)


def test_llama_index_loads_a_document_per_page(calm, sample, example):
    from llama_index.core.readers.base import BaseReader

    reader = example("llama_index_reader").EverypageReader(client=Everypage(calm.url))
    assert isinstance(reader, BaseReader)
    documents = reader.load_data(sample, extra_info={"project": "harbour"}, pages="1-4")
    assert [document.metadata["page"] for document in documents] == [1, 2, 3, 4]
    assert documents[3].metadata["text_source"] == "ai" and documents[0].text
    assert documents[0].metadata["project"] == "harbour"
    assert len({document.doc_id for document in documents}) == 4
    # The same document has the same ids, so that an index can be updated.
    assert documents[0].doc_id == reader.load_data(sample, pages="1-4")[0].doc_id
